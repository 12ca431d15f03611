package collective

import (
	"math"
	"testing"
	"time"
)

func TestFitFindsTheLinkThatMadeTheSamples(t *testing.T) {
	for _, want := range []Link{
		{Alpha: 20 * time.Microsecond, Bandwidth: 10e9, Reduce: 50e9, Ports: 1},
		{Alpha: 5 * time.Microsecond, Bandwidth: 20e9, Reduce: 100e9, Ports: 7},
		{Alpha: 0, Bandwidth: 1e9, Reduce: 3e9, Ports: 3},
	} {
		var samples []Sample
		for _, a := range []Algorithm{Ring, Mesh, HalvingDoubling} {
			for n := 1 << 20; n <= 1<<30; n *= 4 {
				samples = append(samples, Sample{a, n, want.Predict(a, 8, n)})
			}
		}
		got, err := Fit(8, samples)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if e := got.Predict(s.Algorithm, 8, s.Bytes)/s.Seconds - 1; math.Abs(e) > 1e-4 {
				t.Errorf("%+v: %v of %d bytes is off by %v with %+v", want, s.Algorithm, s.Bytes, e, got)
			}
		}
	}
}

func TestFitWithoutNegativeConstants(t *testing.T) {
	l, err := Fit(4, []Sample{{Ring, 1 << 10, 1e-6}, {Ring, 1 << 20, 1}, {Mesh, 1 << 20, 1e-3}}) // nothing is like that
	if err != nil || l.Alpha < 0 || !(l.Bandwidth > 0) || !(l.Reduce > 0) {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestFitRefuses(t *testing.T) {
	for what, samples := range map[string][]Sample{
		"nothing":      nil,
		"no algorithm": {{Pairwise, 1 << 20, 1}},
		"no time":      {{Ring, 1 << 20, 0}},
	} {
		if l, err := Fit(8, samples); err == nil {
			t.Errorf("%s: %+v", what, l)
		}
	}
	if _, err := Fit(1, []Sample{{Ring, 1, 1}}); err == nil {
		t.Error("one rank was fitted")
	}
}

func TestRuleOfThumb(t *testing.T) {
	if RuleOfThumb(1<<20, false) != Ring || RuleOfThumb(1<<30, false) != Mesh || RuleOfThumb(1, true) != HalvingDoubling {
		t.Error("not what the articles say")
	}
}
