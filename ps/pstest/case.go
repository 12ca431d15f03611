package pstest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"hcclps/ps/wire"
)

// never is later than every moment of a history.
const never = math.MaxUint64

// jobCase is what the judge looks at in one job: its events by worker, in the
// order of their begin.
type jobCase struct {
	*model
	job     Job
	workers []string // ascending rank
	opens   map[string][]Open
	pushes  map[string][]Push
	resends []Resend
	pulls   []Pull
	changes []Change
	final   map[cell]wire.Row
	done    map[string][]uint64 // by shard: steps the servers say are applied
}

func newCase(h *History, j Job) (*jobCase, error) {
	m, err := newModel(h.Layout, j)
	if err != nil {
		return nil, err
	}
	c := &jobCase{
		model: m, job: j, opens: map[string][]Open{}, pushes: map[string][]Push{},
		final: map[cell]wire.Row{}, done: map[string][]uint64{},
	}
	for _, o := range h.Opens {
		if o.Job == j.Name {
			c.opens[o.Worker] = append(c.opens[o.Worker], o)
		}
	}
	for _, p := range h.Pushes {
		if p.Job == j.Name {
			c.pushes[p.Worker] = append(c.pushes[p.Worker], p)
		}
	}
	for _, r := range h.Resends {
		if r.Job == j.Name {
			c.resends = append(c.resends, r)
		}
	}
	for _, p := range h.Pulls {
		if p.Job == j.Name {
			c.pulls = append(c.pulls, p)
		}
	}
	for _, ch := range h.Changes {
		if ch.Job == j.Name {
			c.changes = append(c.changes, ch)
		}
	}
	slices.SortStableFunc(c.pulls, func(a, b Pull) int { return int(a.Call) - int(b.Call) })
	for _, t := range h.Rows {
		if t.Job != j.Name {
			continue
		}
		for _, r := range t.Rows {
			c.final[cell{t.Table, r.Key}] = r
		}
	}
	c.records(h)
	return c, nil
}

// records reads who is in the job and how far, by the servers' own account;
// of the replicas of a shard any will do, as counters compares them all.
func (c *jobCase) records(h *History) {
	ranks := map[string]uint32{}
	shards := len(h.Layout.Shards)
	for _, s := range h.Servers {
		for _, g := range s.Groups {
			for _, j := range g.Jobs {
				if j.Job != c.job.Name || g.Group == 0 {
					continue
				}
				for _, w := range j.Workers {
					ranks[w.Worker] = w.Rank
					if c.done[w.Worker] == nil {
						c.done[w.Worker] = make([]uint64, shards)
					}
					c.done[w.Worker][g.Group-1] = max(c.done[w.Worker][g.Group-1], w.Done)
				}
			}
		}
	}
	for name := range c.opens {
		ranks[name] = c.opens[name][0].Rank
		if c.done[name] == nil {
			c.done[name] = make([]uint64, shards)
		}
		c.workers = append(c.workers, name)
	}
	slices.SortFunc(c.workers, func(a, b string) int { return int(ranks[a]) - int(ranks[b]) })
}

// fenced is the moment from which nothing that a life sends may count: the
// return of the first later open.
func (c *jobCase) fenced(w Who) uint64 {
	at := uint64(never)
	for _, o := range c.opens[w.Worker] {
		if o.Life > w.Life {
			at = min(at, o.Return)
		}
	}
	return at
}

// nextCall is the first moment at which a later life may have begun to open.
func (c *jobCase) nextCall(w Who) uint64 {
	at := uint64(never)
	for _, o := range c.opens[w.Worker] {
		if o.Life > w.Life {
			at = min(at, o.Call)
		}
	}
	return at
}

// progress is how many steps of a worker were acknowledged before a moment,
// and how many were begun; it counts lives before the given one only, unless
// that is 0. A session that joined at a step counts as that many steps.
func (c *jobCase) progress(worker string, before uint64, life int) (acked, begun uint64) {
	for _, o := range c.opens[worker] {
		if o.Return < before && (life == 0 || o.Life < life) {
			acked, begun = max(acked, o.Clock), max(begun, o.Clock)
		}
	}
	for _, p := range c.pushes[worker] {
		if life > 0 && p.Life >= life {
			continue
		}
		if p.Call < before || life > 0 {
			begun = max(begun, p.Step+1)
		}
		if p.Outcome == Acked && p.Return < before {
			acked = max(acked, p.Step+1)
		}
	}
	return acked, begun
}

// gap is a range of steps that a worker skipped: it was expelled and joined
// again at To. What it had sent of them may have been applied in part.
type gap struct{ from, to uint64 }

func (c *jobCase) gaps(worker string) []gap {
	var out []gap
	for _, o := range c.opens[worker] {
		if acked, begun := c.progress(worker, o.Call, o.Life); o.Absent && o.Clock > begun {
			out = append(out, gap{acked, o.Clock})
		}
	}
	return out
}

// skipped is how many steps a worker certainly, and how many more it maybe,
// skipped.
func (c *jobCase) skipped(worker string) (never, maybe uint64) {
	for _, g := range c.gaps(worker) {
		for step := g.from; step < g.to; step++ {
			if c.sent(worker, step) {
				maybe++
			} else {
				never++
			}
		}
	}
	return never, maybe
}

func (c *jobCase) sent(worker string, step uint64) bool {
	return slices.ContainsFunc(c.pushes[worker], func(p Push) bool { return p.Step == step })
}

// cursors are the data positions a session may find: the one behind its last
// step. Where it has just joined again that is, under bsp, the one behind the
// last step before; under ssp and asp none, as others go on from there.
func (c *jobCase) cursors(o Open) [][]byte {
	for _, g := range c.gaps(o.Worker) {
		switch {
		case g.to != o.Clock || c.sent(o.Worker, o.Clock-1):
		case c.params.Sync != wire.BSP:
			return [][]byte{nil}
		default:
			return [][]byte{cursor(g.from), cursor(g.from + 1)}
		}
	}
	return [][]byte{cursor(o.Clock)}
}

// candidates are the contents that a worker's step may have been applied with
// in a lane, each once.
func (c *jobCase) candidates(worker string, step uint64, l lane) []contribution {
	var out []contribution
	for _, p := range c.pushes[worker] {
		if p.Step != step || p.Call > c.fenced(p.Who) {
			continue
		}
		in := contribution{rows: p.Rows, grads: c.in(l, p.Grads)}
		if !slices.ContainsFunc(out, in.equal) {
			out = append(out, in)
		}
	}
	for _, g := range c.gaps(worker) {
		if step >= g.from && step < g.to {
			out = append(out, contribution{skipped: true})
		}
	}
	return out
}

// contribution is a worker's step in a lane.
type contribution struct {
	rows    uint32
	grads   []Gradient
	skipped bool // it may have had no part in the step
}

func (a contribution) equal(b contribution) bool {
	return a.rows == b.rows && slices.EqualFunc(a.grads, b.grads, func(x, y Gradient) bool {
		return x.Table == y.Table && slices.Equal(x.Keys, y.Keys) && same(x.Values, y.Values)
	})
}

// schedules lists the learning rates that steps may have had: one, unless the
// answer to a rate change was lost and nobody knows at which step it came.
func (c *jobCase) schedules(last uint64) []schedule {
	out := []schedule{nil}
	for _, ch := range c.changes {
		if ch.Plan.Kind != wire.PlanRate {
			continue
		}
		var next []schedule
		for _, s := range out {
			if ch.Known {
				next = append(next, s.with(ch.Plan.T, ch.Plan.Rate))
				continue
			}
			next = append(next, s)
			for t := range last {
				next = append(next, s.with(t, ch.Plan.Rate))
			}
		}
		out = next
	}
	return out
}

// schedule lists from which step on which rate holds, in the order of plans.
type schedule []rateFrom

type rateFrom struct {
	from uint64
	rate float32
}

func (s schedule) with(from uint64, rate float32) schedule {
	return append(slices.Clone(s), rateFrom{from, rate})
}

func (s schedule) at(step uint64) float32 {
	rate := float32(1)
	for _, r := range s {
		if r.from <= step {
			rate = r.rate
		}
	}
	return rate
}

// stopsAt is the step from which on the job is stopped, if that is known.
func (c *jobCase) stopsAt() (uint64, bool) {
	stop := uint64(never)
	for _, ch := range c.changes {
		if ch.Known && ch.Plan.Kind == wire.PlanStop {
			stop = min(stop, ch.Plan.T)
		}
	}
	return stop, stop != never
}

// finalRow compares a row with the servers' at the end.
func (c *jobCase) finalRow(at cell, want row) error {
	got, ok := c.final[at]
	if !ok {
		return fmt.Errorf("table %d, key %d: row is missing, want %v", at.table, at.key, want.values)
	}
	switch {
	case !same(got.Values, want.values):
		return fmt.Errorf("table %d, key %d: row is %v after %d updates, want %v after %d", at.table, at.key, got.Values, got.Sightings, want.values, want.sightings)
	case got.Sightings != want.sightings:
		return fmt.Errorf("table %d, key %d: row was updated %d times, want %d", at.table, at.key, got.Sightings, want.sightings)
	case want.step != 0 && got.Step != want.step:
		return fmt.Errorf("table %d, key %d: last step is recorded as %d, want %d", at.table, at.key, got.Step, want.step)
	}
	return nil
}

// finalRows compares all rows of a lane.
func (c *jobCase) finalRows(l lane, want rows) error {
	for at, row := range want {
		if row.waiting > 0 {
			continue
		}
		if err := c.finalRow(at, row); err != nil {
			return err
		}
	}
	for at, got := range c.final {
		if row, ok := want[at]; (!ok || row.waiting > 0) && c.laneOf(at.key) == l {
			return fmt.Errorf("table %d, key %d: row is %v, want none", at.table, at.key, got.Values)
		}
	}
	return nil
}

// cursor is the data position that goes with a number of completed steps.
func cursor(steps uint64) []byte {
	if steps == 0 {
		return nil
	}
	return binary.LittleEndian.AppendUint64(nil, steps)
}
