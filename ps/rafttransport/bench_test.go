package rafttransport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
	"hcclps/p2p/sockets"
	"hcclps/ps/rafttransport"
)

// ringSpace gives out the same few buffers again and again, as a recycled log does.
type ringSpace struct {
	*heapLog
	pool sync.Pool
}

func (l *ringSpace) Alloc(n int) ([]byte, func(), error) {
	b, _ := l.pool.Get().(*[]byte)
	if b == nil || cap(*b) < n {
		fresh := make([]byte, n)
		b = &fresh
	}
	return (*b)[:n], func() { l.pool.Put(b) }, nil
}

// BenchmarkAppend sends batches of 2 MiB through a pipeline to a follower that agrees at once: this transport on TCP and on a Unix
// socket, payloads verified on arrival or not, against hashicorp/raft's NetworkTransport on TCP.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		name := fmt.Sprintf("%dKiB", size>>10)
		b.Run("ours-tcp/"+name, func(b *testing.B) { benchOurs(b, size, "127.0.0.1:0", false) })
		b.Run("ours-tcp-trusted/"+name, func(b *testing.B) { benchOurs(b, size, "127.0.0.1:0", true) })
		b.Run("ours-unix-trusted/"+name, func(b *testing.B) { benchOurs(b, size, "unix:"+b.TempDir()+"/s", true) })
		b.Run("stock-tcp/"+name, func(b *testing.B) { benchStock(b, size) })
	}
}

func benchOurs(b *testing.B, size int, listen string, trusted bool) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	ln, err := sockets.Network{}.Listen(ctx, listen)
	if err != nil {
		b.Fatal(err)
	}
	open := func(id string) *rafttransport.Mux {
		m, err := rafttransport.New(rafttransport.Config{
			Network: sockets.Network{}, Cluster: "bench", Self: id,
			Resolve:  func(raft.ServerAddress) (string, error) { return ln.Addr().String(), nil },
			SameHost: func(string) bool { return trusted },
		})
		if err != nil {
			b.Fatal(err)
		}
		done.Go(func() { _ = m.Run(ctx) })
		return m
	}
	leader, follower := open("leader"), open("follower")
	gate := &link.Gate{Identity: link.Identity{Cluster: "bench", ID: "follower"}, Handle: follower.Accept}
	done.Go(func() { _ = gate.Serve(ctx, ln) })
	follow(ctx, follower.Group(1, &ringSpace{heapLog: newHeapLog()}))
	pump(b, leader.Group(1, newHeapLog()), "follower", size)
}

func benchStock(b *testing.B, size int) {
	b.Helper()
	open := func() *raft.NetworkTransport {
		t, err := raft.NewTCPTransport("127.0.0.1:0", nil, 2, 10*time.Second, io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = t.Close() })
		return t
	}
	leader, follower := open(), open()
	follow(b.Context(), follower)
	pump(b, leader, follower.LocalAddr(), size)
}

// follow agrees to everything.
func follow(ctx context.Context, t raft.Transport) {
	go func() {
		for {
			select {
			case rpc := <-t.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// pump sends one batch per iteration.
func pump(b *testing.B, t raft.Transport, to raft.ServerAddress, size int) {
	b.Helper()
	const batch = 2 << 20
	line, err := t.AppendEntriesPipeline("follower", to)
	if err != nil {
		b.Fatal(err)
	}
	a := request(2)
	for i := range batch / size {
		a.Entries = append(a.Entries, &raft.Log{Index: uint64(2 + i), Term: 3, Data: bytes.Repeat([]byte{byte(i)}, size)})
		e := a.Entries[i] // with its CRC, as from a log
		e.Extensions = binary.LittleEndian.AppendUint32(nil, crc32.Checksum(e.Data, castagnoli))
	}
	failed := make(chan error, 1)
	go func() {
		for range b.N {
			f := <-line.Consumer()
			if err := f.Error(); err != nil || !f.Response().Success {
				failed <- fmt.Errorf("not appended: %w", err)
				return
			}
		}
		failed <- nil
	}()
	b.SetBytes(batch)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := line.AppendEntries(a, new(raft.AppendEntriesResponse)); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-failed; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	_ = line.Close()
}
