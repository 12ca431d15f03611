package dataset_test

import (
	"strings"
	"testing"

	"hcclps/worker/dataset"
)

func TestContinueTakesOverTheFit(t *testing.T) {
	trained := func() *dataset.Schema {
		return &dataset.Schema{Features: []dataset.Feature{
			{Name: "label", Kind: dataset.KindLabel},
			{Name: "u", Kind: dataset.KindID, Dim: 8},
			{Name: "age", Kind: dataset.KindNumeric, Fit: &dataset.Fit{Edges: []float64{1, 2}}},
		}}
	}
	// The same features of columns with other names, a default written out, another label.
	more := &dataset.Schema{Features: []dataset.Feature{
		{Name: "u", Kind: dataset.KindID, Dim: 8, Table: "u", Column: "user"},
		{Name: "age", Kind: dataset.KindNumeric, Transform: dataset.TransformQuantile},
		{Name: "bought", Kind: dataset.KindLabel},
	}}
	if err := more.Continue(trained()); err != nil {
		t.Fatal(err)
	}
	if fit := more.Features[1].Fit; fit == nil || fit.Edges[1] != 2 || more.Features[0].Column != "user" {
		t.Errorf("got %+v", more.Features)
	}
	for says, change := range map[string]func(s *dataset.Schema){
		"hash bits":       func(s *dataset.Schema) { s.HashBits = 20 },
		"the features u,": func(s *dataset.Schema) { s.Features[2].Name = "income" },
		`feature "u"`:     func(s *dataset.Schema) { s.Features[1].Dim = 4 },
		`feature "age"`:   func(s *dataset.Schema) { s.Features[2].Transform = dataset.TransformLog },
	} {
		s := trained()
		change(s)
		if err := s.Continue(trained()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want %q", err, says)
		}
	}
}
