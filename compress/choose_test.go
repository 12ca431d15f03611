package compress_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"hcclps/compress"
)

// candidates have speeds as one core has them, bytes a second.
func candidates(t testing.TB) []compress.Candidate {
	t.Helper()
	var all []compress.Candidate
	for _, c := range []struct {
		name           string
		encode, decode float64
	}{{"none", 1e14, 1e14}, {"fp16", 40e9, 40e9}, {"int8", 30e9, 30e9}, {"onebit", 20e9, 40e9}, {"topk", 5e9, 100e9}} {
		all = append(all, compress.Candidate{Codec: parse(t, c.name), Speed: compress.Speed{Encode: c.encode, Decode: c.decode}})
	}
	return all
}

// TestChoose: the slower the link the fewer bytes, and nothing is compressed where the link is as fast as the codecs.
func TestChoose(t *testing.T) {
	all := candidates(t)
	for _, c := range []struct {
		name      string
		n         int
		bandwidth float64
		want      string
	}{
		{"memory", 1 << 24, 100e9, "none"},
		{"a fast network", 1 << 24, 10e9, "int8"},
		{"a slow network", 1 << 24, 0.02e9, "topk"},
		{"10 gigabits", 1 << 24, 1.25e9, "onebit"},
		{"few bytes", 16, 10e9, "none"},
	} {
		link := compress.Link{Bandwidth: c.bandwidth, Latency: 50 * time.Microsecond}
		if got := all[compress.Choose(c.n, link, all)].Codec.String(); got != c.want {
			for _, a := range all {
				t.Logf("%s: %.3g s", a.Codec, compress.Estimate(c.n, link, a))
			}
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if compress.Choose(1, compress.Link{Bandwidth: 1}, nil) != -1 {
		t.Error("something of no candidates")
	}
}

// TestAuto: a codec that keeps too much back is left for a time, which doubles.
func TestAuto(t *testing.T) {
	a, err := compress.NewAuto(compress.AutoConfig{Candidates: candidates(t), Hold: 50})
	if err != nil {
		t.Fatal(err)
	}
	link := compress.Link{Bandwidth: 0.02e9}
	var alarms []int
	for step := range 400 {
		c := a.Choose(1<<20, link)
		residual := 2.0
		if c.String() == "topk" {
			residual = 30
		}
		if a.Observe(c, residual, 1) {
			alarms = append(alarms, step)
			if next := a.Choose(1<<20, link).String(); next != "onebit" {
				t.Fatalf("step %d: %s after the alarm", step, next)
			}
		}
	}
	// ten steps, a hold of 50, ten steps, a hold of 100, ...
	if want := []int{9, 68, 177, 386}; !equalInts(alarms, want) {
		t.Errorf("alarms at %v, want %v", alarms, want)
	}
	if a.Observe(parse(t, "none"), math.NaN(), 1) || a.Observe(parse(t, "none"), 1, 0) {
		t.Error("an alarm without need")
	}
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestAutoRefuses(t *testing.T) {
	slow := candidates(t)
	slow[1].Speed.Decode = 0
	for what, cfg := range map[string]compress.AutoConfig{
		"no candidates": {}, "no speed": {Candidates: slow}, "a negative alarm": {Candidates: candidates(t), Alarm: -1}, "a negative hold": {Candidates: candidates(t), Hold: -1},
	} {
		if _, err := compress.NewAuto(cfg); err == nil {
			t.Errorf("accepted %s", what)
		}
	}
}

// TestMeasure with a clock that goes on by a millisecond a look.
func TestMeasure(t *testing.T) {
	now := time.Duration(0)
	clock := func() time.Duration { now += time.Millisecond; return now }
	for _, name := range codecs() {
		s, err := compress.Measure(parse(t, name), 1000, clock)
		if err != nil || s.Encode != 4e6 || s.Decode != 4e6 {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := compress.Measure(parse(t, "none"), 0, clock); !errors.Is(err, compress.ErrMismatch) {
		t.Errorf("no elements: %v", err)
	}
}
