package backend_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The places of some in resources.
const (
	descriptors = 2
	goroutines  = 5
)

// resource is something that a process holds.
type resource struct {
	name  string
	allow int // by so much it may grow, whatever the time
}

// resources are what is watched; heap is what is resident without stacks and the memory of the simulator. A fault that
// leaks one descriptor a death is far above what is allowed in two minutes.
func resources() []resource {
	return []resource{
		{"resident MiB", 64}, {"heap MiB", 16}, {"descriptors", 16}, {"mappings", 48}, {"threads", 24}, {"goroutines", 60},
	}
}

// usage is how much this process holds of each resource.
type usage []int

// measure waits for the collector first.
func measure(t *testing.T) usage {
	t.Helper()
	debug.FreeOSMemory()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	var size, resident int
	statm, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(statm), &size, &resident)
	}
	maps, mapsErr := os.ReadFile("/proc/self/maps")
	files, filesErr := os.ReadDir("/proc/self/fd")
	threads, threadsErr := os.ReadDir("/proc/self/task")
	if err := errors.Join(err, mapsErr, filesErr, threadsErr); err != nil {
		t.Fatal(err)
	}
	return usage{
		resident * os.Getpagesize() >> 20, int(heap.HeapAlloc >> 20), len(files), bytes.Count(maps, []byte("\n")), len(threads), runtime.NumGoroutine(),
	}
}

func (u usage) String() string {
	var b bytes.Buffer
	for i, r := range resources() {
		fmt.Fprintf(&b, "%d %s, ", u[i], r.name)
	}
	return b.String()
}

// growth compares the mean of the last third of the samples with that of the first, after a warm-up: what comes and goes is not growth, nor is a
// sample taken while a process is dead.
func growth(samples []usage) []error {
	samples = samples[len(samples)/10:]
	third := len(samples) / 3
	if third < 3 {
		return nil
	}
	var errs []error
	for i, r := range resources() {
		mean := func(of []usage) int {
			sum := 0
			for _, u := range of {
				sum += u[i]
			}
			return sum / len(of)
		}
		first, last := mean(samples[:third]), mean(samples[len(samples)-third:])
		if last > first+r.allow {
			errs = append(errs, fmt.Errorf("%s grew from %d to %d", r.name, first, last))
		}
	}
	return errs
}

// wantLeft checks that no more descriptors and goroutines are held now, or some seconds from now.
func (u usage) wantLeft(t *testing.T) {
	t.Helper()
	late := time.After(endsWithin)
	for {
		now := measure(t)
		if now[descriptors] <= u[descriptors] && now[goroutines] <= u[goroutines] {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Errorf("before %v\nnow    %v", u, now)
			return
		}
	}
}

func TestGrowthIsSeen(t *testing.T) {
	var flat, leak []usage
	for i := range 30 {
		flat = append(flat, usage{200 + 90*(i%3), 30, 70 - i%9, 400, 20, 100})
		if i == 4 { // one sample while a process was dead
			flat[i] = usage{180, 10, 40, 390, 14, 30}
		}
		leak = append(leak, usage{200, 30, 70 + 2*i + 30*(i%4), 400, 20, 100})
	}
	if errs := growth(flat); len(errs) != 0 {
		t.Errorf("flat use is taken for growth: %v", errs)
	}
	if errs := growth(leak); len(errs) != 1 {
		t.Errorf("descriptors leak, and that is told: %v", errs)
	}
}
