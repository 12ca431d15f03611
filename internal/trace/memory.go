package trace

import (
	"bytes"
	"context"
	"os"
	"runtime/metrics"
	"strconv"
	"time"
)

// sampleEvery is how often Run looks at memory.
const sampleEvery = 100 * time.Millisecond

// Run samples the memory of the process while the Recorder is on: heap, as Go counts its live and unswept objects, and rss, what the system has given. It
// returns nil when ctx ends. Spans are recorded without it. Call it once at a time.
func (r *Recorder) Run(ctx context.Context) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	t := r.Track("memory", "memory")
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		var wake <-chan time.Time // none while it is off
		if r.On() {
			wake = tick.C
			t.Sample("heap", heapBytes())
			if n := residentBytes(); n > 0 {
				t.Sample("rss", n)
			}
		}
		select {
		case <-wake:
		case <-r.started:
		case <-ctx.Done():
			return nil
		}
	}
}

func heapBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

// residentBytes is the resident memory of the process, 0 where the system does not say.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm") // pages: size, resident, ...
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil {
		return 0
	}
	return n * int64(os.Getpagesize())
}
