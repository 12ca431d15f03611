package pushbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hcclps/worker"
)

// Spec says what to measure.
type Spec struct {
	Worker worker.Config // of each size, which is a job of its own: Job is what their names begin with
	Sizes  []int         // bytes of the tensor, multiples of 4
	Time   time.Duration // of a size, about; default 2 s
	Rounds int           // of pushes, and of pulls, of which the median counts; default 5
	Parts  int           // messages a shard that a push is cut into; default by size
}

// Operations.
const (
	Push = "push" // a gradient goes to the servers and is applied
	Pull = "pull" // weights come from them
)

// Result is one operation at one size. The names in JSON are those of nccl-tests, as far as they have one.
type Result struct {
	Op     string  `json:"op"`     // push or pull
	Size   int     `json:"size"`   // bytes
	Count  int     `json:"count"`  // elements of type
	Type   string  `json:"type"`   // float32
	Redop  string  `json:"redop"`  // sum for a push, none for a pull
	Micros float64 `json:"us"`     // of one operation
	Algbw  float64 `json:"algbw"`  // GB/s
	Busbw  float64 `json:"busbw"`  // GB/s over the wire: the same, each byte crosses once
	Best   float64 `json:"best"`   // GB/s of the best round
	Parts  int     `json:"parts"`  // of a push, a shard
	Number int     `json:"number"` // operations a round
	Spread float64 `json:"spread"` // GB/s of the best round over that of the worst
	Memcpy float64 `json:"memcpy"` // GB/s of one copy of 64 MiB by this process, after the rounds: how fast memory was
	Wrong  int     `json:"wrong"`  // weights that are not what the pushes make of them
}

const (
	// partSize is the size of the tensor's pieces by default: entries of the log are at most 8 MiB.
	partSize = 4 << 20
	maxParts = 64
	// most bounds the pushes of a size: the largest gradient, 8, so many times is a whole number that float32 has.
	most = 1 << 20
)

// Run measures and calls report with the push and the pull of each size.
func Run(ctx context.Context, spec Spec, report func(Result) error) error {
	if spec.Time == 0 {
		spec.Time = 2 * time.Second
	}
	if spec.Rounds == 0 {
		spec.Rounds = 5
	}
	for _, size := range spec.Sizes {
		push, pull, err := spec.size(ctx, size)
		if err != nil {
			return fmt.Errorf("push and pull %d bytes: %w", size, err)
		}
		if err := errors.Join(report(push), report(pull)); err != nil {
			return err
		}
	}
	return nil
}

// size measures one size as a job of its own.
func (s Spec) size(ctx context.Context, size int) (push, pull Result, err error) {
	cfg := s.Worker
	cfg.Job = fmt.Sprintf("%s-%d", cfg.Job, size)
	cfg.Sum = true
	if cfg.Parts = s.Parts; cfg.Parts == 0 {
		cfg.Parts = defaultParts(size)
	}
	client, err := worker.Connect(ctx, cfg)
	if err != nil {
		return push, pull, err
	}
	t, err := newTensor(ctx, client, size/4)
	if err == nil {
		push, pull, err = s.rounds(ctx, t)
	}
	if err == nil {
		err = client.Finish(ctx)
	}
	if err = errors.Join(err, client.Close(context.WithoutCancel(ctx))); err != nil {
		return push, pull, err
	}
	push.Parts, pull.Parts = cfg.Parts, cfg.Parts
	push.Memcpy = memcpy()
	pull.Memcpy = push.Memcpy
	return push, pull, nil
}

func defaultParts(size int) int {
	parts := 1
	for parts < maxParts && size > parts*partSize {
		parts *= 2
	}
	return parts
}

// rounds measures pushes and pulls in turn.
func (s Spec) rounds(ctx context.Context, t *tensor) (push, pull Result, err error) {
	want := s.Time / time.Duration(2*s.Rounds)
	pushes, err := t.trial(ctx, t.push, want, (most-t.pushed)/(s.Rounds+1))
	if err != nil {
		return push, pull, err
	}
	pulls, err := t.trial(ctx, t.pull, want, most)
	if err != nil {
		return push, pull, err
	}
	var pushed, pulled []time.Duration
	for range s.Rounds {
		took, err := repeat(ctx, t.push, pushes)
		if err != nil {
			return push, pull, err
		}
		pushed = append(pushed, took)
		if took, err = repeat(ctx, t.pull, pulls); err != nil {
			return push, pull, err
		}
		pulled = append(pulled, took)
	}
	wrong, err := t.wrong(ctx)
	push = result(Push, "sum", len(t.weights), pushes, pushed, wrong)
	pull = result(Pull, "none", len(t.weights), pulls, pulled, wrong)
	return push, pull, err
}

func result(op, redop string, count, number int, rounds []time.Duration, wrong int) Result {
	slices.Sort(rounds)
	one := rounds[len(rounds)/2].Seconds() / float64(number)
	gb := float64(4*count) / 1e9
	return Result{
		Op: op, Size: 4 * count, Count: count, Type: "float32", Redop: redop, Micros: one * 1e6, Algbw: gb / one, Busbw: gb / one, Number: number,
		Best: gb * float64(number) / rounds[0].Seconds(), Spread: rounds[len(rounds)-1].Seconds() / rounds[0].Seconds(), Wrong: wrong,
	}
}

// memcpy is the median rate of a few copies of 64 MiB.
func memcpy() float64 {
	from, to := make([]byte, 64<<20), make([]byte, 64<<20)
	for i := range from {
		from[i] = byte(i) // so that it is memory, and not one page of zeros
	}
	var took []time.Duration
	for range 6 {
		began := time.Now()
		copy(to, from)
		took = append(took, time.Since(began))
	}
	took = took[1:] // the first one made the pages
	slices.Sort(took)
	return float64(len(from)) / 1e9 / took[len(took)/2].Seconds()
}

func repeat(ctx context.Context, op func(context.Context) error, n int) (time.Duration, error) {
	began := time.Now()
	for range n {
		if err := op(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// tensor is a dense tensor of the job, with the worker's gradient and weights.
type tensor struct {
	client   *worker.Client
	dense    worker.Dense
	gradient []float32
	weights  []float32
	pushed   int
}

func newTensor(ctx context.Context, c *worker.Client, count int) (*tensor, error) {
	rule := worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}
	d, err := c.Dense(ctx, "tensor", []int{count}, worker.DenseSpec{Optimizer: rule})
	if err != nil {
		return nil, err
	}
	t := &tensor{client: c, dense: d, gradient: make([]float32, count), weights: make([]float32, count)}
	for i := range t.gradient {
		t.gradient[i] = gradientAt(i)
	}
	return t, nil
}

// gradientAt is a whole number from 1 to 8 that neighbours, rows and parts do not share.
func gradientAt(i int) float32 { return float32(uint32(i+1)*0x9e3779b1>>29 + 1) }

func (t *tensor) push(ctx context.Context) error {
	t.pushed++
	return t.client.Push(ctx, 1, nil, worker.Gradient{Table: t.dense, Values: t.gradient})
}

func (t *tensor) pull(ctx context.Context) error {
	return t.client.Pull(ctx, worker.Read{Table: t.dense, Out: t.weights})
}

// trial finds how many operations take about the time; the first ones create rows and memory and do not count.
func (t *tensor) trial(ctx context.Context, op func(context.Context) error, want time.Duration, limit int) (int, error) {
	if _, err := repeat(ctx, op, 2); err != nil {
		return 0, err
	}
	for n := 1; ; n *= 4 {
		took, err := repeat(ctx, op, n)
		if err != nil {
			return 0, err
		}
		if took > want/4 || 4*n > limit/8 {
			fit := float64(n) * float64(want) / float64(max(took, 1))
			return int(min(max(fit, 1), float64(limit/2))), nil
		}
	}
}

// wrong pulls once more and counts the weights that are not minus the sum of all gradients.
func (t *tensor) wrong(ctx context.Context) (n int, err error) {
	for i := range t.weights {
		t.weights[i] = float32(math.NaN())
	}
	if err := t.pull(ctx); err != nil {
		return 0, err
	}
	for i, w := range t.weights {
		if w != -gradientAt(i)*float32(t.pushed) {
			n++
		}
	}
	return n, nil
}
