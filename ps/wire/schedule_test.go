package wire_test

import (
	"math"
	"strings"
	"testing"

	"hcclps/ps/wire"
)

func TestSchedulesAtTheirCorners(t *testing.T) {
	for _, c := range []struct {
		s    wire.Schedule
		step uint64
		want float64
	}{
		{wire.Schedule{}, 0, 1},
		{wire.Schedule{Kind: "constant"}, math.MaxUint64, 1},
		{wire.Schedule{Warmup: 4}, 0, 0.25},
		{wire.Schedule{Warmup: 4}, 3, 1},
		{wire.Schedule{Warmup: 4}, 4, 1},
		{wire.Schedule{Kind: "linear", Steps: 10}, 0, 1},
		{wire.Schedule{Kind: "linear", Steps: 10}, 5, 0.5},
		{wire.Schedule{Kind: "linear", Steps: 10, Floor: 0.2}, 10, 0.2},
		{wire.Schedule{Kind: "linear", Steps: 10, Floor: 0.2}, 1000, 0.2},
		{wire.Schedule{Kind: "linear", Warmup: 2, Steps: 10}, 7, 0.5},
		{wire.Schedule{Kind: "cosine", Steps: 8}, 0, 1},
		{wire.Schedule{Kind: "cosine", Steps: 8}, 4, 0.5},
		{wire.Schedule{Kind: "cosine", Steps: 8}, 2, (1 + math.Sqrt2/2) / 2},
		{wire.Schedule{Kind: "cosine", Steps: 8, Floor: 0.5}, 9, 0.5},
		{wire.Schedule{Kind: "step", Steps: 3, Decay: 0.5}, 2, 1},
		{wire.Schedule{Kind: "step", Steps: 3, Decay: 0.5}, 3, 0.5},
		{wire.Schedule{Kind: "step", Steps: 3, Decay: 0.5}, 8, 0.25},
		{wire.Schedule{Kind: "inverse_sqrt"}, 0, 1},
		{wire.Schedule{Kind: "inverse_sqrt"}, 3, 0.5},
		{wire.Schedule{Kind: "inverse_sqrt", Warmup: 4}, 4, 1},
		{wire.Schedule{Kind: "inverse_sqrt", Warmup: 4}, 16, 0.5},
	} {
		if err := c.s.Validate(); err != nil {
			t.Fatalf("%+v: %v", c.s, err)
		}
		if got := c.s.At(c.step); got != float32(c.want) {
			t.Errorf("%+v at step %d: %v, want %v", c.s, c.step, got, float32(c.want))
		}
	}
}

func TestScheduleValidateNamesTheFault(t *testing.T) {
	for want, s := range map[string]wire.Schedule{
		`"cosnie" is unknown`:      {Kind: "cosnie"},
		"linear: give the steps":   {Kind: "linear"},
		"step: give the steps":     {Kind: "step", Decay: 0.5},
		"constant takes no steps":  {Steps: 4},
		"floor 2":                  {Kind: "linear", Steps: 1, Floor: 2},
		"floor NaN":                {Kind: "cosine", Steps: 1, Floor: math.NaN()},
		"step: floor 0.5":          {Kind: "step", Steps: 1, Decay: 0.5, Floor: 0.5},
		"step: decay 0":            {Kind: "step", Steps: 1},
		"inverse_sqrt: decay 0.25": {Kind: "inverse_sqrt", Decay: 0.25},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
