package collective_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// pass is a backward pass whose gradients are summed: a timed wait for each of some tensors, as a device would leave the host idle.
type pass struct {
	tensors, bytes int
	compute        time.Duration // of a tensor; 0: all gradients are there
	bucket         int           // bytes
}

// run is the time of a pass at the slowest of the ranks of a fabric.
func (p pass) run(ctx context.Context, f inproc.Fabric, ranks int) (slowest time.Duration, err error) {
	errs := make([]error, ranks)
	var mu sync.Mutex
	var all sync.WaitGroup
	for r, comm := range f.World(ranks) {
		all.Go(func() {
			g, err := collective.New(collective.Config{Comm: comm})
			if err != nil {
				errs[r] = err
				return
			}
			end := make(chan error, 1)
			go func() { end <- g.Run(ctx) }()
			took, err := p.rank(ctx, g)
			mu.Lock()
			slowest = max(slowest, took)
			mu.Unlock()
			errs[r] = errors.Join(err, g.Barrier().Wait(ctx), g.Close(), <-end)
		})
	}
	all.Wait()
	return slowest, errors.Join(errs...)
}

func (p pass) rank(ctx context.Context, g *collective.Group) (time.Duration, error) {
	f, err := g.Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Sum, Threshold: p.bucket})
	if err != nil {
		return 0, err
	}
	tensors := make([]p2p.Buffer, p.tensors)
	for i := range tensors {
		b := make([]byte, p.bytes)
		for j := 0; j < len(b); j += 4096 { // it is there when it is needed
			b[j] = 1
		}
		tensors[i] = p2p.Bytes(b)
	}
	if err := g.Barrier().Wait(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	var buckets []*collective.Bucket
	for i, tensor := range tensors {
		if wait := time.NewTimer(time.Until(start.Add(time.Duration(i+1) * p.compute))); p.compute > 0 {
			<-wait.C
		}
		buckets = append(buckets, f.Add(tensor))
	}
	f.Flush()
	for _, b := range buckets {
		if err := b.Wait(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// ratios are of the time of communication to that of computing.
func ratios() []float64 { return []float64{0.5, 1, 2} }

// shaped is a pass of 20 tensors of 2 ms, and links on which their sums take so many times as long as computing.
func shaped(ratio float64, ranks, bytes int) (pass, inproc.Fabric) {
	p := pass{tensors: 20, bytes: bytes, compute: 2 * time.Millisecond, bucket: bytes}
	traffic := 2 * float64(ranks-1) / float64(ranks) * float64(p.tensors*bytes)
	rate := traffic / (ratio * (time.Duration(p.tensors) * p.compute).Seconds())
	return p, inproc.Fabric{Port: rate, Link: inproc.Link{Latency: 10 * time.Microsecond}}
}

// A pass with overlap takes as long as the slower of computing and communication, but for the last bucket, which leaves when all is computed.
func TestCommunicationOverlapsTheBackwardPass(t *testing.T) {
	for _, ranks := range []int{2, 4} {
		for _, ratio := range ratios() {
			synctest.Test(t, func(t *testing.T) {
				p, f := shaped(ratio, ranks, 1<<20)
				computing := time.Duration(p.tensors) * p.compute
				alone := p
				alone.compute = 0
				communication, err := alone.run(t.Context(), f, ranks)
				if err != nil {
					t.Fatal(err)
				}
				both, err := p.run(t.Context(), f, ranks)
				if err != nil {
					t.Fatal(err)
				}
				longest := max(computing, communication)
				limit := longest*115/100 + communication/time.Duration(p.tensors)
				t.Logf("%d ranks: computing %v, communication %v, both %v, x%.3f", ranks, computing, communication, both, float64(both)/float64(longest))
				if both > limit {
					t.Errorf("%d ranks: computing %v and communication %v take %v, want at most %v", ranks, computing, communication, both, limit)
				}
				if off := communication.Seconds() / (ratio * computing.Seconds()); off < 0.9 || off > 1.2 {
					t.Errorf("communication takes %v of %v of computing, want %v", communication, computing, ratio)
				}
			})
		}
	}
}

// The same in real time: compute is a timed wait.
func BenchmarkOverlap(b *testing.B) {
	for _, ratio := range ratios() {
		b.Run(fmt.Sprintf("communication=%v", ratio), func(b *testing.B) {
			p, f := shaped(ratio, 2, 1<<20)
			alone := p
			alone.compute = 0
			var runs []time.Duration
			for range 5 {
				took, err := alone.run(b.Context(), f, 2)
				if err != nil {
					b.Fatal(err)
				}
				runs = append(runs, took)
			}
			slices.Sort(runs)
			communication := runs[len(runs)/2]
			longest := max(time.Duration(p.tensors)*p.compute, communication)
			runs = runs[:0]
			for b.Loop() {
				both, err := p.run(b.Context(), f, 2)
				if err != nil {
					b.Fatal(err)
				}
				runs = append(runs, both)
			}
			slices.Sort(runs)
			b.ReportMetric(float64(runs[len(runs)/2])/float64(longest+communication/time.Duration(p.tensors)), "of-the-slower")
		})
	}
}
