package dataset

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"math"
	"math/bits"

	"hcclps/internal/vec"
)

// Inspect returns the features that cfg gives, with all that is inferred from a
// sample and nothing fitted: what a first features file says. Columns without
// names in the data are named in it.
func Inspect(cfg Config) (*Schema, error) {
	r, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	s := r.plan.schema.clone()
	for i := range s.Features {
		s.Features[i].Fit = nil
	}
	if isTabular(r.cfg.Format) && !r.plan.layout.header {
		s.Columns = r.plan.layout.columns
	}
	return s, nil
}

// Report is what Check saw.
type Report struct {
	Rows     int             `json:"rows"`      // well-formed and selected
	Bad      int             `json:"bad"`       // malformed rows
	FirstBad error           `json:"-"`         // the first of them
	Label    Summary         `json:"label"`     // of the labels
	Features []FeatureReport `json:"features"`  // in the order of the schema
	Joined   []int           `json:"unmatched"` // of each side table: rows without a row there
}

// FeatureReport is what Check saw of one feature.
type FeatureReport struct {
	Name       string  `json:"name"`
	Kind       Kind    `json:"kind"`
	Missing    int     `json:"missing"`    // rows without a value
	Entries    int     `json:"entries"`    // ids over all rows
	Distinct   int     `json:"distinct"`   // different ids
	Collisions int     `json:"collisions"` // different values whose id another value has
	Estimated  bool    `json:"estimated"`  // the last two are estimates, from a sample of ids
	Numbers    Summary `json:"numbers"`    // of a numeric feature, before its transform
}

// Summary describes some numbers.
type Summary struct {
	Count int     `json:"count"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Mean  float64 `json:"mean"`
}

func (s *Summary) add(x float64) {
	if s.Count == 0 || x < s.Min {
		s.Min = x
	}
	if s.Count == 0 || x > s.Max {
		s.Max = x
	}
	s.Count++
	s.Mean += (x - s.Mean) / float64(s.Count)
}

// Check reads all files once, malformed rows included, and reports what a
// features file makes of them. Memory is bounded: distinct ids are counted
// exactly up to 262,144 a feature, and estimated beyond.
func Check(cfg Config) (*Report, error) {
	cfg.SkipBad = true
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	c := &checker{plan: r.plan, report: &Report{}, seed: maphash.MakeSeed()}
	for _, f := range r.plan.schema.Features {
		if f.Kind != KindLabel && f.Kind != KindWeight {
			c.report.Features = append(c.report.Features, FeatureReport{Name: f.Name, Kind: f.Kind})
		}
	}
	c.report.Joined = make([]int, len(r.plan.sides))
	c.ids = make([]distinct, len(c.report.Features))
	if err := c.run(); err != nil {
		return nil, fmt.Errorf("check data: %w", err)
	}
	return c.report, nil
}

// checker is one pass of Check.
type checker struct {
	plan   *plan
	report *Report
	ids    []distinct
	seed   maphash.Seed
}

func (c *checker) run() error {
	d := c.plan.decoder()
	err := c.pass(d)
	for i := range c.ids {
		f := &c.report.Features[i]
		f.Distinct, f.Collisions, f.Estimated = c.ids[i].result()
	}
	return errors.Join(err, d.input().close())
}

func (c *checker) pass(d decoder) error {
	one := rows{shape: c.plan.shape}
	for row := 0; ; row++ {
		one.reset()
		bad, err := d.next(&one)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !c.plan.cfg.Split.takes(row) {
			continue
		}
		if bad != nil {
			if c.report.Bad == 0 {
				c.report.FirstBad = bad
			}
			c.report.Bad++
			continue
		}
		c.report.Rows++
		c.report.Label.add(float64(one.label[0]))
		if t, ok := d.(*tabular); ok {
			c.record(t, &one)
		} else {
			c.bags(&one)
		}
	}
}

// bags counts a row of a sparse format, where ids are what the file says.
func (c *checker) bags(one *rows) {
	for b, p := range one.bags {
		from, to := one.bag(b)
		c.count(p.at, one.keys[from:to])
	}
}

func (c *checker) count(feature int, keys []uint64) {
	f := &c.report.Features[feature]
	if len(keys) == 0 {
		f.Missing++
	}
	f.Entries += len(keys)
	for _, k := range keys {
		c.ids[feature].add(k, k)
	}
}

// record counts a row of a format of columns, value by value.
func (c *checker) record(t *tabular, one *rows) {
	for i, s := range t.sides {
		if _, ok := s.rows[string(t.table.rec.fields[s.on])]; !ok {
			c.report.Joined[i]++
		}
	}
	bag := 0
	for i := range t.encoder.slots {
		s := &t.encoder.slots[i]
		var keys []uint64
		if s.f.ragged() {
			from, to := one.bag(bag)
			keys = one.keys[from:to]
			bag++
		}
		if s.kind == KindCross {
			c.count(i, keys)
			continue
		}
		c.value(i, t.encoder, s, s.value(&t.table.rec), keys)
	}
}

// value counts the value of a feature in a row, and the ids it became.
func (c *checker) value(i int, e *encoder, s *slot, v []byte, keys []uint64) {
	f := &c.report.Features[i]
	pieces := [][]byte{v}
	if s.kind == KindIDs || s.kind == KindSequence {
		pieces = e.split(s, v)
	}
	f.Entries += len(keys)
	if len(v) == 0 || len(pieces) == 0 {
		f.Missing++
		return
	}
	if s.kind == KindNumeric {
		if x, want := parseFloat(v); want == "" {
			f.Numbers.add(x)
		}
		for _, k := range keys {
			c.ids[i].add(k, k)
		}
		return
	}
	for j, k := range keys {
		c.ids[i].add(maphash.Bytes(c.seed, pieces[j]), k)
	}
}

// maxDistinct bounds the values that a distinct holds.
const maxDistinct = 1 << 18

// distinct counts different ids and the different values behind them. When it
// is full it goes on with a random half of the ids: Wegman's adaptive sampling
// (Flajolet: On adaptive sampling, 1990).
type distinct struct {
	values map[uint64]uint64 // hash of a value -> its id
	level  int               // ids whose hash ends in so many zeros are counted
}

func (d *distinct) add(value, id uint64) {
	if !d.takes(id) {
		return
	}
	if d.values == nil {
		d.values = map[uint64]uint64{}
	}
	d.values[value] = id
	for len(d.values) > maxDistinct {
		d.level++
		for v, id := range d.values {
			if !d.takes(id) {
				delete(d.values, v)
			}
		}
	}
}

func (d *distinct) takes(id uint64) bool {
	return bits.TrailingZeros64(vec.Mix64(id, 0x5bd1e995)) >= d.level
}

func (d *distinct) result() (ids, collisions int, estimated bool) {
	seen := make(map[uint64]struct{}, len(d.values))
	for _, id := range d.values {
		seen[id] = struct{}{}
	}
	scale := math.Exp2(float64(d.level))
	return int(float64(len(seen)) * scale), int(float64(len(d.values)-len(seen)) * scale), d.level > 0
}
