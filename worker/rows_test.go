package worker_test

import (
	"fmt"
	"testing"

	"hcclps/worker"
)

// inPlace is a model that reads one row a key and gives each of them a gradient
// that depends on it: by Lookup, or where the rows lie.
type inPlace struct {
	table   worker.Embedding
	rowsOf  bool
	missing int // keys whose row in place was not the looked up one
}

func (m *inPlace) Step(s *worker.Step) error {
	for _, name := range []string{"user", "items"} {
		bags := s.Ragged(name)
		if err := m.field(s, bags); err != nil {
			return err
		}
	}
	return nil
}

func (m *inPlace) field(s *worker.Step, bags worker.Ragged) error {
	each, err := s.Lookup(m.table, bags, worker.None)
	if err != nil {
		return err
	}
	dim := each.Shape[1]
	grad := make([]float32, len(each.Data))
	for j, v := range each.Data {
		grad[j] = v*0.3 + float32(bags.Keys[j/dim])*0.01
	}
	if !m.rowsOf {
		return s.Grad(each, grad)
	}
	rows, err := s.RowsOf(m.table, bags)
	if err != nil {
		return err
	}
	sums := rows.Grad()
	if rows.Dim != dim || len(rows.Index) != len(bags.Keys) || len(sums) != rows.Len()*dim {
		return fmt.Errorf("%d rows of %d floats with %d of gradients, for %d keys", rows.Len(), rows.Dim, len(sums), len(rows.Index))
	}
	for j, n := range rows.Index {
		for d, v := range rows.Row(n) {
			if v != each.Data[j*dim+d] {
				m.missing++
			}
			sums[int(n)*dim+d] += grad[j*dim+d]
		}
	}
	return nil
}

func TestRowsInPlaceAreThoseOfLookup(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	digests := map[string]int{}
	for _, rowsOf := range []bool{false, true} {
		for _, accumulate := range []int{1, 4} {
			c := connect(t, l, worker.Config{Job: fmt.Sprint(rowsOf, accumulate), Sum: true})
			e, err := c.Embedding(t.Context(), "rows", worker.EmbeddingSpec{
				Dim: 5, Optimizer: sgd(0.01), Init: worker.Init{Name: "uniform", Params: map[string]float64{"low": -0.5, "high": 0.5}},
			})
			if err != nil {
				t.Fatal(err)
			}
			m := &inPlace{table: e, rowsOf: rowsOf}
			src := &stream{rows: 1024, batch: 128 / accumulate}
			if _, err := c.Train(t.Context(), m, src, worker.TrainOptions{Accumulate: accumulate}); err != nil {
				t.Fatal(err)
			}
			if m.missing > 0 {
				t.Errorf("%d floats differ from the rows that Lookup gave", m.missing)
			}
			digest, err := c.Digest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			digests[digest]++
			end(t, c)
		}
	}
	if len(digests) != 1 {
		t.Errorf("gradients in place and by Grad, of batches and of parts of them, gave %d digests: %v", len(digests), digests)
	}
}
