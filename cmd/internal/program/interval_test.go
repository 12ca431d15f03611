package program

import (
	"testing"
	"time"
)

func TestInterval(t *testing.T) {
	for s, want := range map[string]struct {
		steps  uint64
		period time.Duration
		bad    bool
	}{
		"": {}, "0": {}, "500": {steps: 500}, "3steps": {steps: 3}, "10m": {period: 10 * time.Minute}, "1.5s": {period: 1500 * time.Millisecond},
		"-1": {bad: true}, "-5s": {bad: true}, "steps": {bad: true}, "ten": {bad: true}, "0steps": {bad: true}, "0s": {bad: true},
	} {
		steps, period, err := Interval("checkpoint-every", s)
		if steps != want.steps || period != want.period || (err != nil) != want.bad {
			t.Errorf("%q: %d steps, %v, %v", s, steps, period, err)
		}
	}
}
