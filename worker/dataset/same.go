package dataset

import (
	"fmt"
	"reflect"
	"slices"
)

// Continue makes s, a schema of more data for a model, agree with the one that
// the model was trained with, and takes over what that had fitted. Where the
// data has its columns, and its label, may differ; what the features mean must
// not.
func (s *Schema) Continue(trained *Schema) error {
	if s.HashBits != trained.HashBits {
		return fmt.Errorf("ids of %d hash bits, not %d as in training (0: 64, of text alone)", s.HashBits, trained.HashBits)
	}
	have, want := s.inputs(), trained.inputs()
	if a, b := featureNames(have), featureNames(want); !slices.Equal(a, b) {
		return fmt.Errorf("the features %s, not %s as in training", list(a), list(b))
	}
	for i, f := range have {
		if a, b := f.meaning(), want[i].meaning(); !reflect.DeepEqual(a, b) {
			return fmt.Errorf("feature %q is not described as in training", f.Name)
		}
		f.Fit = want[i].Fit
	}
	return nil
}

// inputs are the features that a model reads.
func (s *Schema) inputs() []*Feature {
	var out []*Feature
	for i := range s.Features {
		if f := &s.Features[i]; f.Kind != KindLabel && f.Kind != KindWeight {
			out = append(out, f)
		}
	}
	return out
}

func featureNames(features []*Feature) []string {
	var out []string
	for _, f := range features {
		out = append(out, f.Name)
	}
	return out
}

// meaning is the feature without what says where the data has it, all defaults
// filled in.
func (f *Feature) meaning() Feature {
	m := *f
	m.Table, m.Transform, m.Missing = f.table(), f.transform(), f.missing()
	m.Column, m.Match, m.Separator, m.NA, m.Fit, m.where = "", "", "", nil, nil, ""
	return m
}
