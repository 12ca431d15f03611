package shm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// unixPair makes and runs a pair over a Unix socket.
func unixPair(t *testing.T) [2]*shm.Comm {
	t.Helper()
	a, b := sockets(t, "unix", filepath.Join(t.TempDir(), "s"))
	return run(t, a, b)
}

// both waits for two Requests.
func both(t *testing.T, what string, a, b *p2p.Request) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Wait(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
	if err := b.Wait(t.Context()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	wg.Wait()
}

var lengths = []int{0, 1, 15, 47, 48, 49, 64, 65, 4095, 4096, 4097, 100_003, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 3}

// Every kind of send meets every kind of receive.
func TestKinds(t *testing.T) {
	leavesNothing(t)
	comms := unixPair(t)
	arena, err := comms[0].Alloc(6 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range lengths {
		want := buffers(1, n)[0]
		sends := map[string]func() *p2p.Request{
			"bytes": func() *p2p.Request { return comms[0].Isend(1, p2p.Bytes(want)) },
			"arena": func() *p2p.Request {
				b := arena.Host()[n%64:][:n]
				copy(b, want)
				return comms[0].Isend(1, p2p.Bytes(b))
			},
			"func": func() *p2p.Request {
				left := want
				return comms[0].IsendFunc(1, n, func(piece []byte) error {
					checkPiece(t, piece, len(left))
					left = left[copy(piece, left):]
					return nil
				})
			},
		}
		for name, send := range sends {
			got := make([]byte, n)
			both(t, name+" to bytes", send(), comms[1].Irecv(0, p2p.Bytes(got)))
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes sent by %s arrived changed", n, name)
			}
			var taken []byte
			both(t, name+" to func", send(), comms[1].IrecvFunc(0, n, func(piece []byte) error {
				if name != "arena" {
					checkPiece(t, piece, n-len(taken))
				}
				taken = append(taken, piece...)
				return nil
			}))
			if !bytes.Equal(taken, want) {
				t.Errorf("%d bytes sent by %s arrived in pieces changed", n, name)
			}
		}
	}
}

// checkPiece checks what Piecewise promises of pieces.
func checkPiece(t *testing.T, piece []byte, left int) {
	t.Helper()
	if len(piece) == 0 || len(piece) > left || len(piece) < left && len(piece)%64 != 0 {
		t.Errorf("piece of %d bytes when %d are left", len(piece), left)
	}
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(piece))); at%16 != 0 {
		t.Errorf("piece at %#x", at)
	}
}

// The four kinds keep one order, and a function is never called by one who posts.
func TestKindsInOrder(t *testing.T) {
	leavesNothing(t)
	comms := unixPair(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	const count = 500
	sizes, kinds := make([]int, count), make([]int, count)
	for i := range sizes {
		sizes[i], kinds[i] = rng.IntN(200), rng.IntN(2)
		if i%20 == 0 {
			sizes[i] = rng.IntN(200_000)
		}
	}
	wg.Go(func() {
		var sends []*p2p.Request
		var posting sync.Mutex
		for i, n := range sizes {
			fill := func(piece []byte) error {
				posting.Lock()
				defer posting.Unlock()
				for j := range piece {
					piece[j] = byte(i)
				}
				return nil
			}
			posting.Lock() // would hang if it were called from here
			if kinds[i] == 0 {
				sends = append(sends, comms[0].IsendFunc(1, n, fill))
			} else {
				sends = append(sends, comms[0].Isend(1, p2p.Bytes(bytes.Repeat([]byte{byte(i)}, n))))
			}
			posting.Unlock()
		}
		for _, s := range sends {
			if err := s.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	for i, n := range sizes {
		got := make([]byte, 0, n)
		r := comms[1].IrecvFunc(0, n, func(piece []byte) error {
			got = append(got, piece...)
			return nil
		})
		if i%3 == 0 {
			<-r.Done()
		}
		if err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, n)) {
			t.Fatalf("message %d arrived changed", i)
		}
	}
	wg.Wait()
}

// A function that fails ends the Comm with its error.
func TestFuncFails(t *testing.T) {
	leavesNothing(t)
	for _, n := range []int{10, 100_000} {
		for side := range 2 {
			comms := unixPair(t)
			reason := errors.New("bad number")
			fine := func([]byte) error { return nil }
			fails := func([]byte) error { return reason }
			funcs := [2]func([]byte) error{fine, fine}
			funcs[side] = fails
			reqs := [2]*p2p.Request{comms[0].IsendFunc(1, n, funcs[0]), comms[1].IrecvFunc(0, n, funcs[1])}
			if err := reqs[side].Wait(t.Context()); !errors.Is(err, reason) {
				t.Errorf("rank %d: %v", side, err)
			}
			if err := reqs[1-side].Wait(t.Context()); !errors.Is(err, p2p.ErrPeer) && (err != nil || n > 1000) {
				t.Errorf("rank %d: %v", 1-side, err)
			}
			if err := comms[side].Isend(1-side, p2p.Bytes(nil)).Wait(t.Context()); !errors.Is(err, p2p.ErrClosed) || !errors.Is(err, reason) {
				t.Errorf("rank %d after that: %v", side, err)
			}
		}
	}
}

func TestAlloc(t *testing.T) {
	leavesNothing(t)
	a, b := sockets(t, "unix", filepath.Join(t.TempDir(), "s"))
	comms, errs := negotiate(t, a, b, [2]shm.Config{{Arena: 1 << 20}, {}})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for _, n := range []int{0, 1, 63, 64, 100_000} {
		b, err := comms[0].Alloc(n)
		if err != nil || b.Len() != n || bytes.ContainsFunc(b.Host(), func(r rune) bool { return r != 0 }) {
			t.Errorf("alloc %d: %d bytes, %v", n, b.Len(), err)
		}
		if n > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b.Host())))%64 != 0 {
			t.Errorf("%d bytes are not aligned", n)
		}
		got = append(got, b.Host()[:n:cap(b.Host())])
	}
	for i, b := range got {
		b = b[:cap(b)] // no more than was asked for
		for j := range b {
			b[j] = byte(i)
		}
	}
	for i, b := range got {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, len(b))) {
			t.Errorf("allocation %d overlaps another", i)
		}
	}
	for _, n := range []int{-1, 1 << 20, 1 << 62} {
		if _, err := comms[0].Alloc(n); !errors.Is(err, shm.ErrArena) {
			t.Errorf("alloc %d: %v", n, err)
		}
	}
	for _, c := range comms {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.Alloc(1); !errors.Is(err, p2p.ErrClosed) {
			t.Errorf("alloc after close: %v", err)
		}
	}
}

// A message of more than 4 GiB, contents by formula: each line holds its own number.
func TestHuge(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 4 GiB")
	}
	leavesNothing(t)
	const n = 4<<30 + 3
	comms := unixPair(t)
	number := func(b []byte, next *uint64, each func([]byte)) {
		for ; len(b) >= 64; b = b[64:] {
			each(b)
			*next++
		}
		for i := range b {
			if b[i] == 0 {
				b[i] = 7 // the last three bytes
			}
		}
	}
	var sent, got, wrong uint64
	send := comms[0].IsendFunc(1, n, func(piece []byte) error {
		number(piece, &sent, func(b []byte) { binary.LittleEndian.PutUint64(b, sent) })
		return nil
	})
	recv := comms[1].IrecvFunc(0, n, func(piece []byte) error {
		for ; len(piece) >= 64; piece = piece[64:] {
			if binary.LittleEndian.Uint64(piece) != got {
				wrong++
			}
			got++
		}
		return nil
	})
	both(t, "4 GiB", send, recv)
	if wrong != 0 || got != n/64 {
		t.Errorf("%d lines arrived, %d of them changed", got, wrong)
	}
}

// Many Comms, some used, some not, leave nothing, also when Run never ran or ended before the peer's.
func TestNothingLeft(t *testing.T) {
	leavesNothing(t)
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := count()
	for i := range 20 {
		a, b := sockets(t, "unix", filepath.Join(t.TempDir(), "s"))
		comms, errs := negotiate(t, a, b, [2]shm.Config{})
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for r, c := range comms {
			if i%3 > r {
				wg.Go(func() { _ = c.Run(t.Context()) })
			}
			if _, err := c.Alloc(1000); err != nil {
				t.Error(err)
			}
		}
		r := comms[0].Isend(1, p2p.Bytes(make([]byte, 100)))
		if i%6 == 2 { // both run
			both(t, "send", r, comms[1].Irecv(0, p2p.Bytes(make([]byte, 100))))
		}
		for _, c := range comms {
			if err := errors.Join(c.Close(), c.Close()); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
	}
	if after := count(); after > before+2 { // the runtime may have opened some of its own
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

func TestDeviceMemory(t *testing.T) {
	comms := unixPair(t)
	b := p2p.Device(1<<40, 100, 0)
	for _, r := range []*p2p.Request{comms[0].Isend(1, b), comms[0].Irecv(1, b)} {
		if err := r.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "device") {
			t.Error(err)
		}
	}
	both(t, "after that", comms[0].Isend(1, p2p.Bytes(nil)), comms[1].Irecv(0, p2p.Bytes(nil)))
}

// A send that is watched, not waited for, ends when a slow peer has taken it, though this side has nothing more to do for it and has long
// gone to sleep.
func TestWatchedSend(t *testing.T) {
	comms := unixPair(t)
	const n = 3 << 19 // does not fit the ring, so the send is watched before it is written
	send := comms[0].Isend(1, p2p.Bytes(make([]byte, n)))
	done := send.Done()
	taken := 0
	recv := comms[1].IrecvFunc(0, n, func(piece []byte) error {
		if taken += len(piece); taken == n {
			<-time.After(300 * time.Millisecond)
		}
		return nil
	})
	go func() { _ = recv.Wait(t.Context()) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the sender is not told")
	}
	if err := send.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
