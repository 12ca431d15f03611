package p2p_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// unixPair connects two ends through a Unix socket.
func unixPair(b *testing.B) [2]net.Conn {
	b.Helper()
	ln, err := (&net.ListenConfig{}).Listen(b.Context(), "unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	dialled, err := (&net.Dialer{}).DialContext(b.Context(), "unix", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	return [2]net.Conn{dialled, accepted}
}

// BenchmarkCodecInRing sends 64 MiB of float32 as 16 bits each through shared memory, where they are encoded into the
// ring and decoded out of it, and reports how long that took against the codec alone and a copy alone, one after the
// other.
func BenchmarkCodecInRing(b *testing.B) {
	src, dst := make(toHalf, 16<<20), make(toHalf, 16<<20)
	for i := range src {
		src[i] = float32(i % 1000)
	}
	conns := unixPair(b)
	open := func(ctx context.Context, rank int) (p2p.RunningComm, error) {
		return shm.Negotiate(ctx, conns[rank], rank, shm.Config{})
	}
	both := connected(b, p2p.Policy{}, open)
	alone := codecAlone(src, dst)
	b.SetBytes(int64(src.Len()))
	id := uint64(0)
	for b.Loop() {
		id++
		out := both.ends[0].SendFrom(id, src)
		both.told(1) // a side receives nothing of which it has not heard
		in := both.ends[1].ReceiveInto(id, p2p.Push, dst)
		<-in.Done()
		<-out.Done()
		if in.Err() != nil || out.Err() != nil {
			b.Fatal(in.Err(), out.Err())
		}
	}
	took := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(took/(alone.encode+alone.apply+alone.copying), "x-in-turn")
	b.ReportMetric((alone.encode+alone.apply)*1e3, "codec-ms")
	b.ReportMetric(alone.copying*1e3, "copy-ms")
}

// parts is how long each part of a transfer takes by itself, in seconds.
type parts struct{ encode, apply, copying float64 }

// codecAlone measures a codec without a transfer, and a copy of what it makes.
func codecAlone(src, dst toHalf) parts {
	buf := make([]byte, 1<<20)
	alone := func(work func(off int, p []byte) error) float64 {
		var took time.Duration
		for range 2 { // the first time touches new memory
			began := time.Now()
			for off := 0; off < src.Len(); off += len(buf) {
				_ = work(off, buf)
			}
			took = time.Since(began)
		}
		return took.Seconds()
	}
	from, to := make([]byte, src.Len()), make([]byte, src.Len())
	return parts{alone(src.Fill), alone(dst.Take), alone(func(off int, p []byte) error {
		copy(to[off:off+len(p)], from[off:])
		return nil
	})}
}

// pair is two ends whose signals go through channels.
type pair struct {
	ends  [2]*p2p.Transfer
	wires [2]chan func() error // done in turn, as by the reader of a control plane
}

// told waits until an end has acted on all that the other has signalled so far.
func (p *pair) told(rank int) {
	done := make(chan struct{})
	p.wires[rank] <- func() error {
		close(done)
		return nil
	}
	<-done
}

// connected makes two ends over the Comms that open makes.
func connected(t testing.TB, policy p2p.Policy, open func(ctx context.Context, rank int) (p2p.RunningComm, error)) *pair {
	t.Helper()
	both := &pair{}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for rank := range 2 {
		both.wires[rank] = make(chan func() error, 1000)
	}
	for rank := range 2 {
		var err error
		both.ends[rank], err = p2p.NewTransfer(p2p.TransferConfig{
			Rank: rank, Peer: "other", Policy: policy,
			Open: func(ctx context.Context, _ uint32) (p2p.RunningComm, error) { return open(ctx, rank) },
			Post: func(s p2p.Signal) { both.wires[1-rank] <- func() error { return both.ends[1-rank].Signalled(s) } },
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = both.ends[rank].Run(ctx) })
		all.Go(func() {
			for {
				select {
				case act := <-both.wires[rank]:
					if err := act(); err != nil {
						t.Error(err)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	return both
}
