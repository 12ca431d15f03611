package main

import (
	"math/rand/v2"

	"hcclps/worker/dataset"
)

// The generated world: items and tags belong to tastes. A user has two tastes,
// likes 9 in 10 of the items of these and 1 in 10 of all others, and is shown one
// of either kind by the toss of a coin. Who knew the user's tastes would therefore
// reach an AUC of 0.9 x 0.9 + 0.9 x 0.1 = 0.9.
const (
	tastes    = 8
	itemsEach = 25 // of a taste
	tagsEach  = 5
	agree     = 0.9
	batchRows = 256
)

// example is one row.
type example struct {
	history []uint64 // items the user liked, one of 10 by chance
	item    uint64   // what was shown
	tags    []uint64 // none to 3 of the item's taste
	label   float32
}

// source is a dataset.Source in memory: how data gets in that no format fits.
type source struct {
	rows []example
	at   int // the next row
}

// generate draws n rows, a function of its arguments.
func generate(seed uint64, n int) *source {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &source{rows: make([]example, n)}
	for i := range s.rows {
		s.rows[i] = draw(rng)
	}
	return s
}

func draw(rng *rand.Rand) example {
	first := rng.IntN(tastes)
	liked := [2]int{first, (first + 1 + rng.IntN(tastes-1)) % tastes}
	item := func(taste int) uint64 { return uint64(taste*itemsEach + rng.IntN(itemsEach)) }
	var e example
	for range 4 + rng.IntN(8) {
		taste := liked[rng.IntN(2)]
		if rng.Float64() > agree {
			taste = rng.IntN(tastes)
		}
		e.history = append(e.history, item(taste))
	}
	shown, likes := liked[rng.IntN(2)], agree
	if rng.IntN(2) == 0 {
		for shown == liked[0] || shown == liked[1] {
			shown = rng.IntN(tastes)
		}
		likes = 1 - agree
	}
	e.item = item(shown)
	for range rng.IntN(4) {
		e.tags = append(e.tags, uint64(shown*tagsEach+rng.IntN(tagsEach)))
	}
	if rng.Float64() < likes {
		e.label = 1
	}
	return e
}

// Next implements dataset.Source. The rows have no order that shuffling would
// have to hide.
func (s *source) Next(b *dataset.Batch) (bool, error) {
	if s.at >= len(s.rows) {
		s.at = 0
		return false, nil
	}
	part := s.rows[s.at:min(s.at+batchRows, len(s.rows))]
	s.at += len(part)
	*b = dataset.Batch{Rows: len(part), Features: []dataset.Column{
		column("history", part, func(e example) []uint64 { return e.history }),
		column("item", part, func(e example) []uint64 { return []uint64{e.item} }),
		column("tags", part, func(e example) []uint64 { return e.tags }),
	}}
	for _, e := range part {
		b.Label, b.Weight = append(b.Label, e.label), append(b.Weight, 1)
	}
	return true, nil
}

// column is a feature: the ids of all rows, one after the other, and where each
// row's begin.
func column(name string, rows []example, ids func(example) []uint64) dataset.Column {
	c := dataset.Column{Name: name, Ragged: dataset.Ragged{Offsets: []int32{0}}}
	for _, e := range rows {
		for _, id := range ids(e) {
			c.Keys, c.Weights = append(c.Keys, id), append(c.Weights, 1)
		}
		c.Offsets = append(c.Offsets, int32(len(c.Keys)))
	}
	return c
}

// Seek implements dataset.Source: all epochs are alike.
func (s *source) Seek(_, batch int) error {
	s.at = batch * batchRows
	return nil
}

// Close implements dataset.Source.
func (s *source) Close() error { return nil }
