package link_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"hcclps/p2p/link"
)

// BenchmarkChunk compares sizes of chunks on the path of a push, from which the default of Limits.Chunk comes. Beside
// the time it reports the CPU time of both sides, which tells more on a busy machine.
func BenchmarkChunk(b *testing.B) {
	for _, size := range []int{4 << 20, 16 << 20, 64 << 20} {
		for _, unix := range []bool{false, true} {
			for _, chunk := range []int{256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20} {
				b.Run(fmt.Sprintf("%dMiB/unix=%v/chunk=%dKiB", size>>20, unix, chunk>>10), func(b *testing.B) {
					pushes(b, size, unix, chunk)
				})
			}
		}
	}
}

func pushes(b *testing.B, size int, unix bool, chunk int) {
	b.Helper()
	mine := make([]byte, size)
	w, where := overSocketsWith(b, func(ctx context.Context, r *link.Request) {
		if err := r.BodyInto(ctx, mine); err == nil {
			_ = r.Reply(nil)
		}
	}, unix, func(s *settings) { s.server.Chunk = chunk })
	body := [][]byte{make([]byte, size)}
	b.SetBytes(int64(size))
	before := cpuTime(b)
	for b.Loop() {
		if _, err := w.client.Call(b.Context(), where, link.Call{Body: body, Priority: link.Push}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N*size)*1e9, "cpu-s/GB")
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
