package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"hcclps/p2p/inproc"
	"hcclps/worker"
)

// noted is a stage that adds its number, and notes the order of its calls.
type noted struct {
	stage, size int
	calls       []string
	outs        [][]float32
	fails       int // micro-batch whose forward fails; -1: none
}

func (n *noted) Forward(micro int, in []float32) ([]float32, error) {
	n.calls = append(n.calls, fmt.Sprintf("f%d", micro))
	if micro == n.fails {
		return nil, errors.New("broken")
	}
	out := []float32{float32(100 * micro), 0}
	copy(out, in)
	out[1] += float32(n.stage)
	n.outs = append(n.outs, out)
	return out, nil
}

func (n *noted) Backward(micro int, grad []float32) ([]float32, error) {
	n.calls = append(n.calls, fmt.Sprintf("b%d", micro))
	if grad == nil {
		grad = n.outs[micro]
	}
	if want := float32(100 * micro); grad[0] != want || len(grad) != 2 {
		return nil, fmt.Errorf("gradient %v of micro-batch %d", grad, micro)
	}
	return slices.Clone(grad), nil
}

func stages(t *testing.T, size, micros, failing int) ([]*noted, []error) {
	t.Helper()
	comms := inproc.World(size)
	all, errs := make([]*noted, size), make([]error, size)
	var wg sync.WaitGroup
	for r, comm := range comms {
		all[r] = &noted{stage: r, size: size, fails: -1}
		if r == failing {
			all[r].fails = 1
		}
		wg.Go(func() {
			in, out := 2, 2
			if r == 0 {
				in = 0
			}
			if r == size-1 {
				out = 0
			}
			p, err := worker.NewPipeline(comm, in, out)
			if err == nil {
				err = p.Step(t.Context(), all[r], micros)
			}
			if errs[r] = err; err != nil {
				_ = comm.Close() // else the others wait
			}
		})
	}
	wg.Wait()
	return all, errs
}

func TestPipelineTakesMicroBatchesForwardAndBack(t *testing.T) {
	for _, size := range []int{1, 2, 4} {
		for _, micros := range []int{0, 1, 3, 9} {
			all, errs := stages(t, size, micros, -1)
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%d stages, %d micro-batches: %v", size, micros, err)
			}
			for r, n := range all {
				if len(n.calls) != 2*micros {
					t.Errorf("stage %d of %d: calls %v", r, size, n.calls)
				}
				for i, out := range n.outs {
					if sum := float32(r * (r + 1) / 2); out[0] != float32(100*i) || out[1] != sum {
						t.Errorf("stage %d gives %v for micro-batch %d, want the sum %v", r, out, i, sum)
					}
				}
			}
		}
	}
	all, _ := stages(t, 3, 4, -1)
	for r, want := range []string{"f0 f1 f2 b0 f3 b1 b2 b3", "f0 f1 b0 f2 b1 f3 b2 b3", "f0 b0 f1 b1 f2 b2 f3 b3"} {
		if got := strings.Join(all[r].calls, " "); got != want {
			t.Errorf("stage %d: %s, want %s", r, got, want)
		}
	}
}

func TestAStageThatFailsEndsTheOthers(t *testing.T) {
	_, errs := stages(t, 3, 4, 1)
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("stage %d of 3", r)) {
			t.Errorf("stage %d: %v", r, err)
		}
	}
	if !strings.Contains(errs[1].Error(), "forward of micro-batch 1: broken") {
		t.Errorf("the stage that fails: %v", errs[1])
	}
	if _, err := worker.NewPipeline(inproc.World(2)[0], 3, 0); err == nil {
		t.Error("a first stage that takes something was made")
	}
}
