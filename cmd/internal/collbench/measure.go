package collbench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// Spec says what to measure. All ranks have the same.
type Spec struct {
	Op         collective.Op
	DType      p2p.DType
	Reduction  collective.Reduction // 0 where nothing is reduced
	Sizes      []int                // bytes
	OutOfPlace bool                 // results go into other memory than what is sent
	Alloc      bool                 // buffers are the group's own, which the ranks of a host read in place
	Tensors    int                  // an AllReduce in place is of so many tensors that are fused; 0: of one that is not
	Scattered  bool                 // they do not lie one behind the other
	Threshold  int                  // bytes of a bucket; 0: the default
	Time       time.Duration        // of a size, about; default 1 s
	Rounds     int                  // of which the median counts; default 5
}

// mostCalls bounds a round.
const mostCalls = 1 << 16

// Result is one size. The names in JSON are those of nccl-tests.
type Result struct {
	Op        string  `json:"op"`
	Ranks     int     `json:"ranks"`
	Size      int     `json:"size"`  // bytes
	Count     int     `json:"count"` // elements of a part, or of all where there are no parts
	Type      string  `json:"type"`
	Redop     string  `json:"redop"` // or none
	Algorithm string  `json:"algo"`
	Micros    float64 `json:"us"`   // of a call, at the slowest rank
	Best      float64 `json:"best"` // the same in the fastest round, which says most where others use the CPUs too
	Algbw     float64 `json:"algbw"`
	Busbw     float64 `json:"busbw"`
	Calls     int     `json:"calls"`  // of a round
	Spread    float64 `json:"spread"` // the worst round over the best
	Wrong     int     `json:"wrong"`  // elements of all ranks
}

// bench is what a rank measures with.
type bench struct {
	g    *collective.Group
	spec Spec
	word []byte // in which ranks agree
}

// Measure measures as one rank. Each calls it at the same time; report is called at rank 0, in the order of sizes, and may be nil at others.
func Measure(ctx context.Context, g *collective.Group, spec Spec, report func(Result) error) error {
	if spec.Time == 0 {
		spec.Time = time.Second
	}
	if spec.Rounds == 0 {
		spec.Rounds = 5
	}
	b := &bench{g: g, spec: spec, word: make([]byte, 8)}
	room := 0
	for _, size := range spec.Sizes {
		room = max(room, spec.room(g.Size(), size))
	}
	x, err := b.buffer(room)
	if err != nil {
		return err
	}
	var y []byte
	if spec.OutOfPlace || spec.Op == collective.AlltoAll {
		if y, err = b.buffer(room); err != nil {
			return err
		}
	}
	var ops []*operation
	results := make([]Result, len(spec.Sizes))
	for i, size := range spec.Sizes {
		o, err := newOperation(g, spec, size, x, y)
		if err != nil {
			return err
		}
		ops = append(ops, o)
		if err := b.prepare(ctx, ops[i], &results[i]); err != nil {
			return fmt.Errorf("measure %v of %d bytes: %w", spec.Op, size, err)
		}
	}
	if err := b.rounds(ctx, ops, results); err != nil {
		return err
	}
	if g.Rank() != 0 {
		return nil
	}
	for _, r := range results {
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
}

// buffer makes memory for messages.
func (b *bench) buffer(n int) ([]byte, error) {
	if !b.spec.Alloc {
		return make([]byte, n), nil
	}
	buf, err := b.g.Alloc(n)
	return buf.Host(), err
}

// prepare checks the contents of a size, and finds how many calls make a round.
func (b *bench) prepare(ctx context.Context, o *operation, r *Result) error {
	wrong, err := o.check(ctx)
	if err != nil {
		return err
	}
	*r = Result{
		Op: o.spec.Op.String(), Ranks: b.g.Size(), Size: o.size, Count: o.count, Type: o.spec.DType.String(), Redop: "none",
		Algorithm: b.algorithm(), Calls: 1,
	}
	if o.spec.Reduction != 0 {
		r.Redop = o.spec.Reduction.String()
	}
	total, err := b.agree(ctx, float64(wrong), collective.Sum)
	if err != nil {
		return err
	}
	r.Wrong = int(total)
	want := b.spec.Time.Seconds() / float64(b.spec.Rounds)
	for {
		s, err := b.timed(ctx, o, r.Calls)
		if err != nil {
			return err
		}
		if took := s * float64(r.Calls); took > want/8 || r.Calls >= mostCalls/4 {
			r.Calls = int(min(max(want/s, 1), mostCalls))
			return nil
		}
		r.Calls *= 4
	}
}

// algorithm is that of the last operation.
func (b *bench) algorithm() string {
	recent := b.g.Recent()
	return recent[len(recent)-1].Call.Algorithm.String()
}

// rounds measures all sizes in turn, again and again.
func (b *bench) rounds(ctx context.Context, ops []*operation, results []Result) error {
	seconds := make([][]float64, len(ops))
	for range b.spec.Rounds {
		for i, o := range ops {
			s, err := b.timed(ctx, o, results[i].Calls)
			if err != nil {
				return fmt.Errorf("measure %v of %d bytes: %w", o.spec.Op, o.size, err)
			}
			seconds[i] = append(seconds[i], s)
		}
	}
	for i := range results {
		r, s := &results[i], seconds[i]
		slices.Sort(s)
		median := s[len(s)/2]
		r.Micros, r.Best, r.Algbw = median*1e6, s[0]*1e6, float64(r.Size)/median/1e9
		r.Busbw = r.Algbw * bus(ops[i].spec.Op, r.Ranks)
		r.Spread = s[len(s)-1] / s[0]
	}
	return nil
}

// timed is the seconds of a call, of so many one after the other, at the slowest rank.
func (b *bench) timed(ctx context.Context, o *operation, calls int) (float64, error) {
	if err := b.g.Barrier().Wait(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range calls {
		if err := o.call(ctx); err != nil {
			return 0, err
		}
	}
	return b.agree(ctx, max(time.Since(start).Seconds(), 1e-9)/float64(calls), collective.Max)
}

// agree makes one number of those of all ranks.
func (b *bench) agree(ctx context.Context, x float64, r collective.Reduction) (float64, error) {
	binary.LittleEndian.PutUint64(b.word, math.Float64bits(x))
	word := p2p.Bytes(b.word)
	err := b.g.AllReduce(word, word, p2p.Float64, r).Wait(ctx)
	return math.Float64frombits(binary.LittleEndian.Uint64(b.word)), err
}
