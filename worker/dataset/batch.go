package dataset

// Batch is some rows, feature by feature. A Batch is refilled by each Next,
// which reuses its slices.
type Batch struct {
	Rows     int       // rows in the batch
	Label    []float32 // Rows labels
	Weight   []float32 // Rows weights; 1 where the data has none
	Features []Column  // the features, in the order of the schema
}

// Column holds the values of one feature, those of a ragged one or those of a
// numeric one.
type Column struct {
	Name string
	Ragged
	Numeric []float32 // one value a row; nil: the feature is ragged
}

// Ragged holds the bags of a sparse feature: row i has the entries
// Keys[Offsets[i]:Offsets[i+1]] with their Weights.
type Ragged struct {
	Offsets []int32   // rows+1 positions in Keys and Weights, the first 0; nil: the feature is numeric
	Keys    []uint64  // ids
	Weights []float32 // one a key; 1 where the data has none
}

// Column returns the feature of that name, nil if there is none.
func (b *Batch) Column(name string) *Column {
	for i := range b.Features {
		if b.Features[i].Name == name {
			return &b.Features[i]
		}
	}
	return nil
}

// reset empties b, keeps its memory and gives it the features of s.
func (b *Batch) reset(s *shape) {
	b.Rows = 0
	b.Label, b.Weight = b.Label[:0], b.Weight[:0]
	n := len(s.bags) + len(s.numerics)
	if cap(b.Features) < n {
		b.Features = append(b.Features[:cap(b.Features)], make([]Column, n-cap(b.Features))...)
	}
	b.Features = b.Features[:n]
	for _, f := range s.bags {
		c := &b.Features[f.at]
		c.Name, c.Numeric = f.name, nil
		c.Offsets, c.Keys, c.Weights = append(c.Offsets[:0], 0), c.Keys[:0], c.Weights[:0]
	}
	for _, f := range s.numerics {
		c := &b.Features[f.at]
		c.Name, c.Ragged = f.name, Ragged{}
		if c.Numeric = c.Numeric[:0]; c.Numeric == nil {
			c.Numeric = []float32{}
		}
	}
}
