package worker

// Rows are rows of a table as they were read: those of the distinct keys of some
// bags, once each. Like a Tensor they are valid until Step returns.
type Rows struct {
	Dim   int     // floats a row
	Index []int32 // for each of the bags' keys, the number of its row
	of    *operand
}

// RowsOf reads the rows of r's keys and leaves them where they are: it is Lookup
// for a model that goes through its bags itself, and saves it a copy of each
// row, and of each gradient.
func (s *Step) RowsOf(e Embedding, r Ragged) (Rows, error) {
	o, err := s.operand(e, r)
	if err != nil {
		return Rows{}, err
	}
	o.pool = None
	return Rows{Dim: o.dim(), Index: o.index, of: o}, nil
}

// Len is the number of distinct rows.
func (r Rows) Len() int { return len(r.of.at) }

// Row is row number i. It is read only.
func (r Rows) Row(i int32) []float32 {
	return r.of.reading.rows[int(r.of.at[i])*r.Dim:][:r.Dim]
}

// Grad is where the gradients of the rows are summed up, [Len, Dim]: zeros, or
// what earlier batches of the step have given. A model that adds to it key by
// key, in their order, gets the same bits however a step's rows are cut into
// batches.
func (r Rows) Grad() []float32 {
	r.of.collect()
	return r.of.grad
}
