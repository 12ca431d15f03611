package collbench

import (
	"testing"
	"testing/synctest"
	"time"
)

// On links whose times fake time measures exactly, every stage trains faster than the one before.
func TestEveryStageOfTheAblationHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Ablation{
			Ranks: 4, Tensors: 10, Bytes: 1 << 20, Compute: 2 * time.Millisecond, Batch: 100, Local: 2, Steps: 3,
			Uplink: 250e6, Link: 5e9, Latency: 20 * time.Microsecond,
		}
		var before AblationResult
		n := 0
		err := a.Run(t.Context(), func(r AblationResult) error {
			t.Logf("%+v", r)
			if n++; r.Samples < 1.02*before.Samples || n > 1 && r.Share >= before.Share {
				t.Errorf("%s: %.0f samples/s, %.2f of the time is communication; %s: %.0f and %.2f", r.Stage, r.Samples, r.Share, before.Stage, before.Samples, before.Share)
			}
			before = r
			return nil
		})
		if err != nil || n != len(Stages()) {
			t.Errorf("%d stages, %v", n, err)
		}
	})
}
