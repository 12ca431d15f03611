package model

import (
	"cmp"
	"math"
	"slices"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// field is a sparse feature as a model reads it: bags of ids, pooled.
type field struct {
	name  string
	kind  dataset.Kind
	pool  worker.Pool
	table string // its embedding table
	dim   int    // that the schema wants of the table; 0: the model decides
	rows  worker.Embedding
}

// crossed reports whether the field is a cross of others.
func (f *field) crossed() bool { return f.kind == dataset.KindCross }

// fields are the sparse features of a schema, in its order.
func (st *store) fields(schema *dataset.Schema) []field {
	if schema == nil {
		return []field{{name: dataset.Features, kind: dataset.KindIDs, table: dataset.Features}}
	}
	var out []field
	tables := schema.Tables()
	for i := range schema.Features {
		f := &schema.Features[i]
		if !f.Ragged() {
			continue
		}
		of := tables[slices.IndexFunc(tables, func(t dataset.Table) bool { return slices.Contains(t.Features, f.Name) })]
		out = append(out, field{name: f.Name, kind: f.Kind, pool: st.pooling(f), table: of.Name, dim: of.Dim})
	}
	return out
}

// pooling is how the ids of a bag become one vector.
func (st *store) pooling(f *dataset.Feature) worker.Pool {
	switch f.Pooling {
	case "sum":
		return worker.Sum
	case "mean":
		return worker.Mean
	case "sqrt":
		return worker.Sqrt
	case "":
		if f.Kind == dataset.KindSequence {
			return worker.Mean
		}
		return worker.Sum
	default:
		st.fail("feature %q: pooling %q: a built-in model needs one vector a row: give sum, mean or sqrt", f.Name, f.Pooling)
		return worker.Sum
	}
}

// sameDim is the one dim of all fields, for models that multiply their vectors
// with each other.
func (st *store) sameDim(fields []field) int {
	dim := 0
	for _, f := range fields {
		if f.dim != 0 && dim != 0 && f.dim != dim {
			st.fail("feature %q: dim %d: the vectors of all features have to be as long: %d or none", f.name, f.dim, dim)
		}
		dim = cmp.Or(dim, f.dim)
	}
	return cmp.Or(dim, st.o.Dim)
}

// numeric names the numeric features of a schema.
func numeric(schema *dataset.Schema) []string {
	if schema == nil {
		return nil
	}
	var names []string
	for i := range schema.Features {
		if f := &schema.Features[i]; f.Kind == dataset.KindNumeric && !f.Ragged() {
			names = append(names, f.Name)
		}
	}
	return names
}

func names(fields []field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	return out
}

// side is what a schema has of the user, or of the item.
type side struct {
	fields  []field
	numbers []string // names of the numeric features
}

// sides parts the features into the user's, which the options name, and the
// item's, all others.
func (st *store) sides(schema *dataset.Schema) [2]side {
	fields, numbers := st.fields(schema), numeric(schema)
	user := st.o.User
	if len(user) == 0 && len(fields) > 0 {
		user = []string{fields[0].name}
	}
	for _, name := range user {
		if all := append(names(fields), numbers...); !slices.Contains(all, name) {
			st.fail("user feature %q: the features are %q", name, all)
		}
	}
	var out [2]side
	of := func(name string) *side {
		if slices.Contains(user, name) {
			return &out[0]
		}
		return &out[1]
	}
	for _, f := range fields {
		s := of(f.name)
		s.fields = append(s.fields, f)
	}
	for _, name := range numbers {
		s := of(name)
		s.numbers = append(s.numbers, name)
	}
	return out
}

// counts is what each id of the bags counts: its weight, scaled by the pooling
// of its bag. A row's vector is the sum of count x row over its ids. buf is
// what counts gave for the batch before.
func counts(buf []float32, bags worker.Ragged, pool worker.Pool) []float32 {
	if pool == worker.Sum {
		return bags.Weights
	}
	values := buf[:0]
	for i := range len(bags.Offsets) - 1 {
		bag := bags.Weights[bags.Offsets[i]:bags.Offsets[i+1]]
		var sum float64
		for _, w := range bag {
			if pool == worker.Mean {
				sum += float64(w)
			} else {
				sum += float64(w) * float64(w)
			}
		}
		scale := float32(0)
		switch {
		case sum == 0:
		case pool == worker.Mean:
			scale = float32(1 / sum)
		default:
			scale = float32(1 / math.Sqrt(sum))
		}
		for _, w := range bag {
			values = append(values, w*scale)
		}
	}
	return values
}
