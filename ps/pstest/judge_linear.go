package pstest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// linearTime bounds the search for one lane.
const linearTime = 10 * time.Second

// stepInput is a worker's step, as an operation on a lane.
type stepInput struct {
	worker int
	step   uint64
}

// readInput is a linearizable read of a lane.
type readInput struct {
	rows []addends
	want [][]float32
}

// linearizable gives the steps and the linearizable reads of a lane to
// porcupine. Its state is how many steps of each worker are in; a read is
// right if the rows are the sum of these.
func (s *asyncSearch) linearizable() error {
	ops := s.readOperations()
	if len(ops) == 0 {
		return nil
	}
	ops = append(ops, s.stepOperations()...)
	for i := range ops {
		ops[i].ClientId = i
	}
	var counts [clients]uint64
	m := porcupine.Model{
		Init: func() any { return counts },
		Step: func(state, input, _ any) (bool, any) {
			n, ok := state.([clients]uint64)
			if !ok {
				return false, state
			}
			switch in := input.(type) {
			case stepInput:
				ok = n[in.worker] == in.step
				n[in.worker]++
				return ok, n
			case readInput:
				return in.holds(n[:]), n
			}
			return false, state
		},
	}
	if porcupine.CheckOperationsTimeout(m, ops, linearTime) == porcupine.Illegal {
		return fmt.Errorf("the reads that were to be linearizable are not (%d operations)", len(ops))
	}
	return nil
}

// holds says whether rows that contain so many steps of each worker have the
// values read.
func (in readInput) holds(counts []uint64) bool {
	for i, r := range in.rows {
		for d, want := range in.want[i] {
			v := float64(r.first[d])
			for w := range r.by {
				if counts[w] >= uint64(len(r.by[w])) {
					return false
				}
				v += r.by[w][counts[w]][d]
			}
			if float64(want) != v {
				return false
			}
		}
	}
	return true
}

func (s *asyncSearch) readOperations() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, p := range s.pulls {
		if !p.Fresh {
			continue
		}
		var in readInput
		for _, g := range s.in(s.lane, p.Rows) {
			dim := int(s.tables[g.Table].Dim)
			for i, k := range g.Keys {
				in.rows = append(in.rows, s.history(cell{g.Table, k}))
				in.want = append(in.want, g.Values[i*dim:][:dim])
			}
		}
		if len(in.rows) > 0 {
			ops = append(ops, porcupine.Operation{Input: in, Call: int64(p.Call), Return: int64(p.Return)})
		}
	}
	return ops
}

// stepOperations are all steps that were applied: each from its first try to
// its first acknowledgement, or to the end of time.
func (s *asyncSearch) stepOperations() []porcupine.Operation {
	var ops []porcupine.Operation
	for w := range s.chosen {
		for step := range s.chosen[w] {
			op := porcupine.Operation{Input: stepInput{w, uint64(step)}, Call: math.MaxInt64, Return: math.MaxInt64}
			if !s.sent(s.workers[w], uint64(step)) {
				op.Call = 0 // skipped: nothing happens, at any time
			}
			for _, p := range s.pushes[s.workers[w]] {
				if p.Step != uint64(step) {
					continue
				}
				op.Call = min(op.Call, int64(p.Call))
				if p.Outcome == Acked {
					op.Return = min(op.Return, int64(p.Return))
				}
			}
			ops = append(ops, op)
		}
	}
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	return ops
}
