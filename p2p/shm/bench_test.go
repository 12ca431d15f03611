package shm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// turn is how many buffers are used in turn, so that large messages come from memory and not from a cache.
const turn = 8

var benchSizes = []int{8, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}

func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dKiB", n>>10)
	default:
		return fmt.Sprintf("%dB", n)
	}
}

// BenchmarkLatency is the time of one way of a ping-pong between two processes: the mean, since the two may share a CPU for a while, and the
// fastest tenth and the median of single exchanges.
func BenchmarkLatency(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			c := startPeer(b, "unix", fmt.Sprintf("echo:%d", size)).join(b, shm.Config{})
			bufs := buffers(turn, size)
			var took []time.Duration
			last := time.Now()
			b.SetBytes(int64(2 * size))
			for i := 0; b.Loop(); i++ {
				buf := p2p.Bytes(bufs[i%turn])
				if err := p2p.Send(b.Context(), c, 1, buf); err != nil {
					b.Fatal(err)
				}
				if err := p2p.Recv(b.Context(), c, 1, buf); err != nil {
					b.Fatal(err)
				}
				now := time.Now()
				took = append(took, now.Sub(last))
				last = now
			}
			slices.Sort(took)
			micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 2e3 }
			b.ReportMetric(micros(b.Elapsed())/float64(len(took)), "us/way")
			b.ReportMetric(micros(took[len(took)/10]), "us-p10")
			b.ReportMetric(micros(took[len(took)/2]), "us-p50")
		})
	}
}

// BenchmarkStream sends a window of messages and waits for its answer, between two processes.
func BenchmarkStream(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			c := startPeer(b, "unix", fmt.Sprintf("sink:%d", size)).join(b, shm.Config{})
			stream(b, c, buffers(turn, size))
		})
	}
}

// BenchmarkStreamAlloc is BenchmarkStream from memory of the Comm.
func BenchmarkStreamAlloc(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			c := startPeer(b, "unix", fmt.Sprintf("sink:%d", size)).join(b, shm.Config{})
			bufs := make([][]byte, turn)
			for i := range bufs {
				buf, err := c.Alloc(size)
				if err != nil {
					b.Fatal(err)
				}
				bufs[i] = buf.Host()
				copy(bufs[i], buffers(1, size)[0])
			}
			stream(b, c, bufs)
		})
	}
}

func stream(b *testing.B, c *shm.Comm, bufs [][]byte) {
	b.Helper()
	var sends [turn]*p2p.Request
	answer := make([]byte, 8)
	b.SetBytes(int64(turn * len(bufs[0])))
	for b.Loop() {
		for i := range sends {
			sends[i] = c.Isend(1, p2p.Bytes(bufs[i]))
		}
		for _, s := range sends {
			if err := s.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if err := p2p.Recv(b.Context(), c, 1, p2p.Bytes(answer)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemcpy is what one copy costs in one process, for comparison.
func BenchmarkMemcpy(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			from, to := buffers(turn, size), buffers(turn, size)
			b.SetBytes(int64(turn * size))
			for b.Loop() {
				for i := range from {
					copy(to[i], from[i])
				}
			}
		})
	}
}

// BenchmarkOverhead is what a message of 8 bytes costs the two sides together in instructions, without any wait: one goroutine plays both.
func BenchmarkOverhead(b *testing.B) {
	x, y := sockets(b, "tcp", "127.0.0.1:0")
	comms := run(b, x, y)
	out, in := p2p.Bytes(make([]byte, 8)), p2p.Bytes(make([]byte, 8))
	b.ReportAllocs()
	for b.Loop() {
		s, r := comms[0].Isend(1, out), comms[1].Irecv(0, in)
		if err := r.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := s.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
