package raftlog

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// model is the plain twin of a log: a map.
type model struct {
	first, last uint64
	logs        map[uint64]*raft.Log
}

func (m *model) store(es []*raft.Log) {
	if m.last > 0 && es[0].Index > m.last+1 || m.last == 0 {
		m.logs, m.first = map[uint64]*raft.Log{}, es[0].Index
	}
	for _, e := range es {
		m.logs[e.Index] = e
		m.last = e.Index
	}
}

func (m *model) remove(lo, hi uint64) {
	switch {
	case lo <= m.first && hi >= m.last:
		m.first, m.last = 0, 0
	case lo <= m.first:
		m.first = hi + 1
	default:
		m.last = lo - 1
	}
}

// compare checks every entry of the model; whole also wants no more than those.
func (m *model) compare(t *testing.T, seed uint64, step int, l *Log, whole bool) {
	t.Helper()
	first, last := l.first, l.last
	if last != m.last || whole && first != m.first || first > m.first {
		t.Fatalf("seed %d step %d: log holds %d to %d, want %d to %d", seed, step, first, last, m.first, m.last)
	}
	for i := m.first; i <= m.last && i > 0; i++ {
		var e raft.Log
		if err := l.GetLog(i, &e); err != nil || e.Term != m.logs[i].Term || !bytes.Equal(e.Data, m.logs[i].Data) {
			t.Fatalf("seed %d step %d: entry %d of term %d: %v", seed, step, i, e.Term, err)
		}
	}
}

const modelSeeds = 30

// TestModel runs random operations on small segments and compares the log, and what recovery makes of its files after
// each of them, with the model.
func TestModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := memoryLog(2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048)
		var m model
		term := uint64(1)
		for step := range 200 {
			modelStep(t, l, &m, r, &term)
			m.compare(t, seed, step, l, true)
			if r.IntN(3) == 0 {
				l.marked = l.durable // as Run does
			}
			again, _, lost, err := restore(l.images(), l.marked)
			if lost != "" || err != nil {
				t.Fatalf("seed %d step %d: %s %v", seed, step, lost, err)
			}
			if m.last > 0 {
				m.compare(t, seed, step, again, false)
			}
		}
	}
}

func modelStep(t *testing.T, l *Log, m *model, r *rand.Rand, term *uint64) {
	t.Helper()
	n := m.last - m.first + 1
	switch k := r.IntN(12); {
	case m.last > 0 && (n > 12 || k == 0):
		hi := m.first + r.Uint64N(n)
		must(t, l.DeleteRange(m.first, hi))
		m.remove(m.first, hi)
	case m.last > 0 && k < 3:
		*term++
		lo := m.first + r.Uint64N(n)
		must(t, l.DeleteRange(lo, m.last))
		m.remove(lo, m.last)
	default:
		from := m.last + 1
		if k == 3 {
			from += r.Uint64N(5) // a gap, or none
		}
		var es []*raft.Log
		for i := range uint64(r.IntN(4) + 1) {
			e := entry(from+i, *term, r.IntN(700))
			if r.IntN(2) == 0 {
				buf, release, err := l.Alloc(len(e.Data))
				must(t, err)
				copy(buf, e.Data)
				e.Data = buf
				defer release()
			}
			es = append(es, e)
		}
		must(t, l.StoreLogs(es))
		for _, e := range es {
			e.Data = bytes.Clone(e.Data)
		}
		m.store(es)
	}
}
