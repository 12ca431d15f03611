package worker

import (
	"context"
	"fmt"

	"hcclps/internal/vec"
	"hcclps/p2p"
)

// Stage is a worker's part of a model that is cut into stages. A batch goes through it in micro-batches, numbered from 0; slices given to a method are
// valid until it returns, and what it returns must not change before the micro-batch has gone forward and back.
type Stage interface {
	// Forward gives the activations for the next stage; in is nil at the first stage, and what the last one returns goes nowhere.
	Forward(micro int, in []float32) (out []float32, err error)
	// Backward gives the gradient by what Forward was given; grad, by what it returned, is nil at the last stage, and what the first one returns goes nowhere.
	// Micro-batches come back in their order, so that gradients of weights are summed as in one process.
	Backward(micro int, grad []float32) (back []float32, err error)
}

// Pipeline is one stage's place among the others: rank r of a Comm is stage r. Each has at most as many micro-batches under way as there are stages from
// it on (the schedule 1F1B of Narayanan et al., PipeDream, 2019). It is used by one goroutine.
type Pipeline struct {
	comm p2p.Comm
	in   int // floats of a micro-batch from the stage before
	out  int // floats of one for the stage behind
}

// NewPipeline makes a stage that takes in floats a micro-batch and gives out: 0 at the ends. Comm remains the caller's; see Client.Comm.
func NewPipeline(comm p2p.Comm, in, out int) (*Pipeline, error) {
	first, last := comm.Rank() == 0, comm.Rank() == comm.Size()-1
	if in < 0 || out < 0 || first != (in == 0) || last != (out == 0) {
		return nil, fmt.Errorf("make stage %d of %d: %d floats in, %d out: want some but at the ends", comm.Rank(), comm.Size(), in, out)
	}
	return &Pipeline{comm: comm, in: in, out: out}, nil
}

// Step takes a batch of so many micro-batches through the stage, forward and back. All stages call it with the same number. After an error the Comm
// is of no use: who closes it ends the other stages.
func (p *Pipeline) Step(ctx context.Context, s Stage, micros int) error {
	f := &flow{p: p, s: s, received: make([]float32, p.in), back: make([]float32, p.out)}
	err := f.run(ctx, micros)
	for _, r := range f.sent {
		if err == nil {
			err = r.Wait(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("stage %d of %d: %w", p.comm.Rank(), p.comm.Size(), err)
	}
	return nil
}

// flow is one batch on its way.
type flow struct {
	p        *Pipeline
	s        Stage
	received []float32
	back     []float32
	sent     []*p2p.Request
}

// run does the schedule: as many micro-batches forward as there are stages behind, then one forward and one back by turns, then the rest back.
func (f *flow) run(ctx context.Context, micros int) error {
	ahead := min(micros, f.p.comm.Size()-1-f.p.comm.Rank())
	for i := range micros + ahead {
		if i < micros {
			if err := f.forward(ctx, i); err != nil {
				return fmt.Errorf("forward of micro-batch %d: %w", i, err)
			}
		}
		if i >= ahead {
			if err := f.backward(ctx, i-ahead); err != nil {
				return fmt.Errorf("backward of micro-batch %d: %w", i-ahead, err)
			}
		}
	}
	return nil
}

func (f *flow) forward(ctx context.Context, micro int) error {
	in, err := f.receive(ctx, f.p.comm.Rank()-1, f.received)
	if err != nil {
		return err
	}
	out, err := f.s.Forward(micro, in)
	if err != nil {
		return err
	}
	return f.send(f.p.comm.Rank()+1, out, f.p.out)
}

func (f *flow) backward(ctx context.Context, micro int) error {
	grad, err := f.receive(ctx, f.p.comm.Rank()+1, f.back)
	if err != nil {
		return err
	}
	back, err := f.s.Backward(micro, grad)
	if err != nil {
		return err
	}
	return f.send(f.p.comm.Rank()-1, back, f.p.in)
}

// receive waits for a stage's next micro-batch; nil where there is no such stage.
func (f *flow) receive(ctx context.Context, from int, into []float32) ([]float32, error) {
	if len(into) == 0 {
		return nil, nil
	}
	return into, f.p.comm.Irecv(from, p2p.Bytes(vec.BytesOfFloats(into))).Wait(ctx)
}

// send lets a micro-batch go; its memory is in use until the end of the step.
func (f *flow) send(to int, b []float32, want int) error {
	if want == 0 {
		return nil
	}
	if len(b) != want {
		return fmt.Errorf("%d floats for stage %d, want %d", len(b), to, want)
	}
	f.sent = append(f.sent, f.p.comm.Isend(to, p2p.Bytes(vec.BytesOfFloats(b))))
	return nil
}

// Comm connects all workers, by rank, for messages of the user's own: all of them call it with the same new name. It is for AllReduce and Hybrid with
// two workers or more, and ends with the client, or when a worker is lost. The caller may close it before.
func (c *Client) Comm(ctx context.Context, name string) (p2p.Comm, error) {
	if c.local == nil || c.local.peers == nil {
		return nil, fmt.Errorf("connect workers for %q: mode %v with %d workers has no connections between them", name, c.cfg.Mode, c.World())
	}
	return c.local.peers.world.Comm(ctx, name, nil)
}
