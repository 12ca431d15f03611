package ps_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// slotted is a table with optimizer slots, of which a job has a few hundred rows, while some keys wait for theirs.
func slotted() wire.Table {
	return wire.Table{
		Name: "rows", Dim: 4, Init: "uniform", InitParams: map[string]float64{"low": -1, "high": 1}, Seed: 5,
		Optimizer: "adam", Params: map[string]float64{"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, NonFinite: "reject",
		Admit: wire.Admit{Kind: wire.AdmitCount, Count: 2}, Evict: wire.Evict{Age: 3},
	}
}

// crowd is the workers of a bsp job on many rows.
type crowd struct {
	c       *cluster
	workers []*session
	params  wire.JobParams
}

// newCrowd opens them, or goes on with them.
func newCrowd(c *cluster, world int) *crowd {
	c.t.Helper()
	w := &crowd{c: c, params: wire.JobParams{World: uint32(world), Parts: 1}}
	for rank := range world {
		w.workers = append(w.workers, c.open(fmt.Sprintf("w%d", rank), uint32(rank), w.params))
	}
	for _, s := range w.workers {
		s.table = control[wire.Table](c, wire.KindTable, wire.TableRequest{
			SessionRef: wire.SessionRef{Job: "j", Worker: s.name, Incarnation: s.inc}, Table: slotted(),
		}).ID
	}
	return w
}

// step has all workers push a step, a function of its number and their ranks.
func (w *crowd) step() {
	w.c.t.Helper()
	var pushes sync.WaitGroup
	for _, s := range w.workers {
		keys := map[uint32][]uint64{}
		r := rand.New(rand.NewPCG(s.step, uint64(s.rank)))
		for k := r.Uint64N(8); k < 700; k += 1 + r.Uint64N(24) {
			keys[w.c.layout.Group(k)] = append(keys[w.c.layout.Group(k)], k)
		}
		for i := range w.c.layout.Shards {
			group := layout.GroupOf(i)
			pushes.Go(func() {
				sec := wire.Section{Table: s.table, Dim: 4, Keys: keys[group]}
				for _, k := range keys[group] {
					for j := range 4 {
						sec.Values = append(sec.Values, float32(math.Sin(float64(k*7+uint64(j)+s.step*13+uint64(s.rank)))))
					}
				}
				m := &wire.Push{Target: s.target(group), Step: s.step, Parts: 1, Rows: 5, Cursor: binary.LittleEndian.AppendUint64(nil, s.step+1)}
				w.c.message(group, m, wire.AppendSection(nil, sec))
			})
		}
	}
	pushes.Wait()
	for _, s := range w.workers {
		s.step++
	}
}

// rows are all rows with their slots, by key.
func (w *crowd) rows() map[uint64]string {
	w.c.t.Helper()
	out := map[uint64]string{}
	for i := range w.c.layout.Shards {
		g := layout.GroupOf(i)
		_, body := w.c.message(g, &wire.Scan{Target: w.workers[0].target(g), Table: w.workers[0].table, First: true, Limit: 10_000})
		rows, err := wire.DecodeRows(body)
		if err != nil {
			w.c.t.Fatal(err)
		}
		for _, r := range rows {
			out[r.Key] = fmt.Sprint(r.Step, r.Sightings, r.Values)
		}
	}
	return out
}

func (w *crowd) wantRows(what string, want map[uint64]string) {
	w.c.t.Helper()
	got := w.rows()
	if len(got) != len(want) {
		w.c.t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for key, v := range want {
		if got[key] != v {
			w.c.t.Errorf("%s: row %d is %s, want %s", what, key, got[key], v)
			return
		}
	}
}

// pushed is push of a step, and the answer of group 1.
func (s *session) pushed() (a wire.Answer) {
	s.c.t.Helper()
	for g, key := range s.keys() {
		body := wire.AppendSection(nil, wire.Section{Table: s.table, Dim: 2, Keys: []uint64{key}, Values: []float32{-1, -1}})
		got, _ := s.c.message(g, &wire.Push{Target: s.target(g), Step: s.step, Parts: 1, Rows: 1}, body)
		if g == 1 {
			a = got
		}
	}
	s.step++
	return a
}
