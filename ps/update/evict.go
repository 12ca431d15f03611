package update

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// Kept is what is replicated of a table's keeping of rows, beside the rows.
type Kept struct {
	Refused uint64 `json:"refused,omitempty"` // gradients of keys that were not admitted
	Evicted uint64 `json:"evicted,omitempty"` // rows
	Time    uint64 `json:"time,omitempty"`    // the latest that was told, nanoseconds
	Marks   []Mark `json:"marks,omitempty"`   // ascending in both; only with an eviction by time
	Since   uint64 `json:"since,omitempty"`   // the step from which on the job has the table, if it came with rows (a fork): rules in steps count no row's age from before it
}

// Mark says that a time had come when so many steps were complete.
type Mark struct {
	Time uint64 `json:"time"`
	Step uint64 `json:"step"`
}

const (
	partitions = table.Partitions
	// rounds is how often all partitions are looked at in the time that a rule gives a row.
	rounds = 8
	// normRound is the steps in which all partitions are looked at for small rows.
	normRound = 256
	// spare is what part of a full partition is given up, so that it is not looked at for each new row.
	spare = 16
	// markEvery is what part of an eviction by time lies between two marks.
	markEvery = 16
	// recordCost is what a row costs in memory beside its record, about: its part of the index and of what is not full.
	recordCost = 16
)

// evictor looks for rows to give up.
type evictor struct {
	rule    wire.Evict
	norm    float64 // squared
	rows    uint64  // budget over all partitions; 0: none
	round   uint64  // steps in which all partitions are looked at; 0: no rule needs it
	victims []uint64
	ranked  []ranked
}

// ranked is a row of a partition that has too many.
type ranked struct {
	key       uint64
	step      uint32
	sightings uint16
}

// newEvictor is nil for a table that keeps all rows.
func newEvictor(spec *wire.Table, stride int) *evictor {
	rule := spec.Evict
	if rule == (wire.Evict{}) {
		return nil
	}
	e := &evictor{rule: rule, norm: rule.Norm * rule.Norm, rows: rule.Rows}
	if rule.Bytes > 0 {
		n := max(rule.Bytes/uint64(stride+recordCost), wire.MinRows)
		if e.rows = cmp.Or(e.rows, n); n < e.rows {
			e.rows = n
		}
	}
	for _, r := range []struct {
		given bool
		steps uint64
	}{{rule.Age > 0, rule.Age / rounds}, {rule.HalfLife > 0, rule.HalfLife / rounds}, {rule.Norm > 0, normRound}} {
		if steps := max(1, min(r.steps, partitions)); r.given && (e.round == 0 || steps < e.round) {
			e.round = steps
		}
	}
	return e
}

// budget is a partition's part of the rows.
func (e *evictor) budget(partition int) int {
	p, each, rest := uint64(partition), e.rows/partitions, e.rows%partitions
	return int(min(each+rest*(p+1)/partitions-rest*p/partitions, math.MaxInt))
}

// Evicts says whether rows of the table can be evicted.
func (t *Table) Evicts() bool { return t.evict != nil }

// Sweep evicts what the rules in steps say, and rows over the budget. It comes after each step, of which turn is the number and now are complete:
// under bsp both are the same. What it does to a partition depends on the rows there and on its arguments alone. Partitions take turns with
// rules; in budget they are after each call. It returns the keys of the rows that are gone, until the next call.
func (t *Table) Sweep(turn, now uint64) []uint64 {
	e := t.evict
	if e == nil {
		return nil
	}
	e.victims = e.victims[:0]
	if e.round > 0 {
		for p := int(turn % e.round); p < partitions; p += int(e.round) {
			e.collect(t.Rows, p, func(r *table.Row) bool { return e.outlived(r, t.Kept.Since, now, int(t.Spec.Dim)) })
			t.forget(p, func(r *table.Row) bool { return e.rule.Age > 0 && age(r, t.Kept.Since, now) >= e.rule.Age })
		}
		t.drop()
	}
	for p := 0; e.rows > 0 && p < partitions; p++ {
		most := e.budget(p)
		if t.Rows.RowsIn(p) > most {
			e.worst(t.Rows, p, most-most/spare, now)
		}
		if seen := t.waiting(); seen != nil && seen.RowsIn(p) > most {
			t.forgetSome(p, most-most/spare, now)
		}
	}
	return t.drop()
}

// SweepTime evicts rows of partitions [from, to) that had no gradient for the time that the rule says, as of a time at which now steps are complete.
// Time does not go back: the latest that was told counts.
func (t *Table) SweepTime(time, now uint64, from, to int) []uint64 {
	e := t.evict
	if e == nil || e.rule.TTL <= 0 {
		return nil
	}
	e.victims = e.victims[:0]
	horizon, known := t.Kept.tell(time, now, uint64(e.rule.TTL))
	if !known {
		return nil
	}
	late := func(r *table.Row) bool { return uint64(r.Step) <= horizon }
	for p := max(from, 0); p < min(to, partitions); p++ {
		e.collect(t.Rows, p, late)
		t.forget(p, late)
	}
	return t.drop()
}

// tell takes note of the time, and returns the steps that were complete a ttl ago, if that is known.
func (k *Kept) tell(time, step, ttl uint64) (horizon uint64, known bool) {
	k.Time = max(k.Time, time)
	if n := len(k.Marks); n == 0 || k.Time-k.Marks[n-1].Time >= max(ttl/markEvery, 1) {
		k.Marks = append(k.Marks, Mark{k.Time, step})
	}
	passed := 0
	for passed < len(k.Marks) && k.Time-k.Marks[passed].Time >= ttl {
		passed++
	}
	if passed == 0 {
		return 0, false
	}
	k.Marks = append(k.Marks[:0], k.Marks[passed-1:]...)
	return k.Marks[0].Step, true
}

// check says why Kept cannot be.
func (k *Kept) check() error {
	for i, m := range k.Marks {
		if m.Time > k.Time || i > 0 && (k.Marks[i-1].Time >= m.Time || k.Marks[i-1].Step > m.Step) {
			return fmt.Errorf("mark %d of its times is out of order", i)
		}
	}
	return nil
}

// outlived says whether a rule in steps, or the norm, gives a row up.
func (e *evictor) outlived(r *table.Row, since, now uint64, dim int) bool {
	old := age(r, since, now)
	switch {
	case e.rule.Age > 0 && old >= e.rule.Age:
		return true
	case e.rule.HalfLife > 0 && old >= e.rule.HalfLife && e.left(r, now) == 0:
		return true
	case e.norm > 0:
		sum := 0.0
		for _, v := range r.Values[:dim] {
			sum += float64(float64(v) * float64(v))
		}
		return sum < e.norm
	}
	return false
}

// age is the steps since the last gradient, or since the table came, if that was later.
func age(r *table.Row, since, now uint64) uint64 {
	return now - min(now, max(uint64(r.Step), since))
}

// left is the sightings of a row, halved as the rule says: from its own step on, as the next gradient will.
func (e *evictor) left(r *table.Row, now uint64) uint16 {
	if e.rule.HalfLife == 0 {
		return r.Sightings
	}
	return table.Halved(r.Sightings, r.Step, uint32(min(now, math.MaxUint32)), uint32(e.rule.HalfLife))
}

// collect adds the rows of a partition that gone is true of to the victims.
func (e *evictor) collect(rows *table.Table, p int, gone func(*table.Row) bool) {
	if rows.RowsIn(p) == 0 {
		return
	}
	rows.Visit(p, func(r table.Row) {
		if gone(&r) {
			e.victims = append(e.victims, r.Key)
		}
	})
}

// worst adds all but the best rows of a partition to the victims: first those with the fewest sightings, if the rule halves them, then those with
// the longest time since their last gradient, then fewer sightings, then lower keys.
func (e *evictor) worst(rows *table.Table, p, keep int, now uint64) {
	e.ranked = e.ranked[:0]
	rows.Visit(p, func(r table.Row) { e.ranked = append(e.ranked, ranked{r.Key, r.Step, e.left(&r, now)}) })
	rare := e.rule.HalfLife > 0
	slices.SortFunc(e.ranked, func(a, b ranked) int {
		if rare && a.sightings != b.sightings {
			return cmp.Compare(a.sightings, b.sightings)
		}
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.sightings, b.sightings), cmp.Compare(a.key, b.key))
	})
	for _, r := range e.ranked[:len(e.ranked)-keep] {
		e.victims = append(e.victims, r.key)
	}
}

// drop deletes the victims that are rows.
func (t *Table) drop() []uint64 {
	gone := t.evict.victims
	t.Kept.Evicted += uint64(t.Rows.Delete(gone))
	return gone
}

// waiting is the table of keys that wait to be admitted, one by one; nil: there is none.
func (t *Table) waiting() *table.Table {
	if t.Spec.Admit.Kind != wire.AdmitCount {
		return nil
	}
	return t.Seen
}

// forget gives up waiting keys of a partition.
func (t *Table) forget(p int, gone func(*table.Row) bool) {
	seen := t.waiting()
	if seen == nil {
		return
	}
	var keys evictor
	keys.collect(seen, p, gone)
	seen.Delete(keys.victims)
}

// forgetSome gives up all but the best waiting keys of a partition.
func (t *Table) forgetSome(p, keep int, now uint64) {
	keys := evictor{rule: t.evict.rule}
	keys.worst(t.Seen, p, keep, now)
	t.Seen.Delete(keys.victims)
}
