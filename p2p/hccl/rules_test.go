package hccl_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"hcclps/p2p/hccl/acl"
)

// These tests break the rules of HCCL on purpose, without package hccl, and check that the simulator notices: so the tests
// of package hccl, which fail on any such notice, would fail if it broke one.

// end is one rank of a raw communicator, on an OS thread of its own.
type end struct {
	lib    *acl.Lib
	rank   int
	comm   acl.Comm
	stream acl.Stream
	buf    uintptr
	t      *testing.T
}

// raw runs both ranks of a communicator that is not warmed up.
func raw(t *testing.T, body func(*end)) {
	t.Helper()
	lib := simulator(t)
	if err := lib.Init(); err != nil {
		t.Fatal(err)
	}
	infos := make(chan *acl.RootInfo, 1)
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			runtime.LockOSThread()
			e := &end{lib: lib, rank: rank, t: t}
			if e.check(lib.SetDevice(rank)) && rank == 0 {
				info, err := lib.GetRootInfo()
				e.check(err)
				infos <- info
			}
			info := <-infos
			infos <- info
			var err error
			if e.comm, err = lib.CommInitRootInfo(2, info, rank, acl.CommConfig{BufferMiB: 1, Name: t.Name()}); !e.check(err) {
				return
			}
			e.stream, err = lib.CreateStream()
			e.check(err)
			e.buf, err = lib.Malloc(4096, acl.HugeFirst)
			e.check(err)
			body(e)
			if lib.Has("aclrtStreamAbort") {
				e.check(lib.AbortStream(e.stream))
			}
			e.check(lib.CommDestroy(e.comm))
			e.check(lib.DestroyStreamForce(e.stream))
			e.check(lib.ResetDevice(rank))
		})
	}
	wg.Wait()
}

func (e *end) check(err error) bool {
	if err != nil {
		e.t.Errorf("rank %d: %v", e.rank, err)
	}
	return err == nil
}

// wants checks for an error of HCCL that says something.
func (e *end) wants(err error, code int32, says string) {
	f := (*acl.Error)(nil)
	if !errors.As(err, &f) || f.Code != code || !strings.Contains(err.Error(), says) {
		e.t.Errorf("rank %d: want code %d and %q: %v", e.rank, code, says, err)
	}
}

// op sends from rank 0 to rank 1.
func (e *end) op(buf uintptr, count uint64, s acl.Stream) error {
	if e.rank == 0 {
		return e.lib.Send(buf, count, acl.Uint8, 1, e.comm, s)
	}
	return e.lib.Recv(buf, count, acl.Uint8, 0, e.comm, s)
}

func TestRuleDeviceMemory(t *testing.T) {
	raw(t, func(e *end) {
		host, err := e.lib.MallocHost(4096)
		e.check(err)
		e.wants(e.op(host, 16, e.stream), 1, "")
		e.check(e.lib.FreeHost(host))
	})
}

func TestRuleThread(t *testing.T) {
	raw(t, func(e *end) {
		var wg sync.WaitGroup
		wg.Go(func() {
			runtime.LockOSThread() // and has not set the device
			e.wants(e.op(e.buf, 16, e.stream), 15, "")
			_, err := e.lib.CreateStream()
			e.wants(err, 107002, "thread")
		})
		wg.Wait()
	})
}

func TestRuleFirstCountsMatch(t *testing.T) {
	raw(t, func(e *end) { e.wants(e.op(e.buf, uint64(16+e.rank), e.stream), 4, "EI0005") })
}

func TestRuleLaterCountsMatch(t *testing.T) {
	raw(t, func(e *end) {
		e.check(e.op(e.buf, 16, e.stream))
		e.check(e.op(e.buf, uint64(16+e.rank), e.stream))
		if err := e.lib.SynchronizeStream(e.stream, 300); !acl.IsWaitTimeout(err) {
			e.t.Errorf("rank %d: counts that differ came to an end: %v", e.rank, err)
		}
	})
}

func TestRuleOneStream(t *testing.T) {
	raw(t, func(e *end) {
		other, err := e.lib.CreateStream()
		e.check(err)
		e.check(e.op(e.buf, 16, e.stream))
		e.check(e.op(e.buf+1024, 16, other))
		e.wants(e.lib.AsyncError(e.comm), 4, "")
		e.check(e.lib.AbortStream(other))
		e.check(e.lib.DestroyStreamForce(other))
	})
}

// The first operator of a direction keeps the caller until the peer is there, so a binding must not meet it in traffic.
func TestRuleFirstOperatorBlocks(t *testing.T) {
	inside, returned := make(chan struct{}), make(chan struct{})
	raw(t, func(e *end) {
		if e.rank == 0 {
			close(inside)
			e.check(e.op(e.buf, 16, e.stream))
			close(returned)
			return
		}
		<-inside
		select {
		case <-returned:
			e.t.Error("the first Send came back before its Recv")
		case <-time.After(100 * time.Millisecond): // none of its calls takes so long by itself
		}
		e.check(e.op(e.buf, 16, e.stream))
		<-returned
	})
}
