// Pipeline cuts a network of four layers into four workers, a layer each: activations go forward and gradients back between neighbours. The loss has the
// bits of the same network in one process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"

	"hcclps/p2p/inproc"
	"hcclps/worker"
)

const (
	layers = 4
	width  = 32 // units of a layer
	rows   = 16 // of a micro-batch
	micros = 8  // micro-batches of a batch
	steps  = 50
	rate   = 0.05 / (rows * micros)
)

// layer is a stage: y = tanh(x W), and at the end the loss against a target.
type layer struct {
	number       int
	weight, grad []float32 // [width, width]
	in, out      [micros][]float32
	loss         float64
}

func newLayer(number int) *layer {
	r := rand.New(rand.NewPCG(uint64(number), 0))
	l := &layer{number: number, weight: make([]float32, width*width), grad: make([]float32, width*width)}
	for i := range l.weight {
		l.weight[i] = float32(r.NormFloat64()) / 6
	}
	return l
}

// input and target are the data: what the layers have to learn is to turn a row round.
func input(micro int) []float32 {
	r := rand.New(rand.NewPCG(uint64(micro), 1))
	x := make([]float32, rows*width)
	for i := range x {
		x[i] = r.Float32() - 0.5
	}
	return x
}

// Forward implements worker.Stage.
func (l *layer) Forward(micro int, in []float32) ([]float32, error) {
	if l.number == 0 {
		in = input(micro)
	}
	x, y := append([]float32(nil), in...), make([]float32, rows*width)
	for i := range y {
		var sum float32
		for k := range width {
			sum += x[i/width*width+k] * l.weight[k*width+i%width]
		}
		y[i] = float32(math.Tanh(float64(sum)))
	}
	l.in[micro], l.out[micro] = x, y
	return y, nil
}

// Backward implements worker.Stage.
func (l *layer) Backward(micro int, grad []float32) ([]float32, error) {
	x, y := l.in[micro], l.out[micro]
	dy, dx := make([]float32, rows*width), make([]float32, rows*width)
	copy(dy, grad)
	if l.number == layers-1 {
		want := input(micro)
		for i := range dy {
			dy[i] = y[i] - want[i/width*width+width-1-i%width]
			l.loss += float64(dy[i]*dy[i]) / (rows * micros)
		}
	}
	for i := range dy {
		dy[i] *= 1 - y[i]*y[i]
		for k := range width {
			at, w := i/width*width+k, k*width+i%width
			l.grad[w] += x[at] * dy[i]
			dx[at] += dy[i] * l.weight[w]
		}
	}
	return dx, nil
}

// learn ends a step, and returns the loss before it.
func (l *layer) learn() float64 {
	loss := l.loss
	for i, g := range l.grad {
		l.weight[i] -= rate * width * g
	}
	clear(l.grad)
	l.loss = 0
	return loss
}

// alone trains all layers in this process.
func alone() []float64 {
	var all [layers]*layer
	for i := range all {
		all[i] = newLayer(i)
	}
	losses := make([]float64, steps)
	for step := range losses {
		for micro := range micros {
			var x []float32
			for _, l := range all {
				x, _ = l.Forward(micro, x)
			}
			for i := range all {
				x, _ = all[layers-1-i].Backward(micro, x)
			}
		}
		for _, l := range all {
			losses[step] = l.learn()
		}
	}
	return losses
}

// stage trains one layer, as one worker of four.
func stage(ctx context.Context, cfg worker.Config) (losses []float64, err error) {
	c, err := worker.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	comm, err := c.Comm(ctx, "pipeline")
	if err != nil {
		return nil, err
	}
	in, out := rows*width, rows*width
	if c.Rank() == 0 {
		in = 0
	}
	if c.Rank() == layers-1 {
		out = 0
	}
	p, err := worker.NewPipeline(comm, in, out)
	if err != nil {
		return nil, err
	}
	l := newLayer(c.Rank())
	for range steps {
		if err := p.Step(ctx, l, micros); err != nil {
			return nil, err
		}
		losses = append(losses, l.learn())
	}
	return losses, nil
}

// run returns the losses of both, step by step.
func run(ctx context.Context) (piped, single []float64, err error) {
	network := inproc.NewNetwork() // processes have sockets, the default
	losses, errs := make([][]float64, layers), make([]error, layers)
	var wg sync.WaitGroup
	for rank := range layers {
		wg.Go(func() {
			cfg := worker.Config{Mode: worker.AllReduce, Rank: rank, World: layers, Network: network}
			cfg.Meet.Master, cfg.Meet.Listen = "stage0:1", fmt.Sprintf("stage%d:1", rank)
			losses[rank], errs[rank] = stage(ctx, cfg)
		})
	}
	wg.Wait()
	return losses[layers-1], alone(), errors.Join(errs...)
}

func main() {
	flag.Parse() // there are none
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "pipeline: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	piped, single, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
	for step := 0; step < steps; step += 7 {
		fmt.Printf("step %2d: loss %.6f in %d stages, %.6f in one process\n", step, piped[step], layers, single[step])
	}
}
