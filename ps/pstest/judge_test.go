package pstest_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"hcclps/ps/pstest"
	"hcclps/ps/wire"
)

// A scenario is a pure function of its seed.
func TestScenarioIsItsSeed(t *testing.T) {
	for seed := range uint64(50) {
		if a, b := pstest.NewScenario(seed), pstest.NewScenario(seed); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d makes two scenarios: %+v and %+v", seed, a, b)
		}
		if a, b := pstest.NewScenario(seed), pstest.NewScenario(seed+1); reflect.DeepEqual(a, b) {
			t.Fatalf("seeds %d and %d make the same scenario", seed, seed+1)
		}
	}
}

// seedOf is a seed whose only job has a model of consistency.
func seedOf(sync wire.Sync) uint64 {
	for seed := uint64(1); ; seed++ {
		if s := pstest.NewScenario(seed); len(s.Jobs) == 1 && s.Jobs[0].Params.Sync == sync {
			return seed
		}
	}
}

// What is wrong in a history is found: each case spoils a good one.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	acked := func(h *pstest.History, after int) *pstest.Push {
		for i := range h.Pushes {
			p := &h.Pushes[i]
			if after--; after < 0 && p.Outcome == pstest.Acked && len(p.Grads) > 0 && len(p.Grads[0].Values) > 0 {
				return p
			}
		}
		t.Fatal("no push with gradients was acknowledged")
		return nil
	}
	read := func(h *pstest.History) *float32 {
		for i := range h.Pulls {
			p := &h.Pulls[len(h.Pulls)-1-i]
			if p.Step != wire.Infinity && !p.First && len(p.Rows) > 0 && len(p.Rows[0].Values) > 0 {
				return &p.Rows[0].Values[0]
			}
		}
		t.Fatal("nothing was read")
		return nil
	}
	found := func(what string, i int) int {
		if i < 0 {
			t.Fatalf("the history has no %s", what)
		}
		return i
	}
	resumed := func(h *pstest.History) *pstest.Open {
		return &h.Opens[found("resumed session", slices.IndexFunc(h.Opens, func(o pstest.Open) bool { return o.Clock > 0 }))]
	}
	flip := func(v *float32) { *v = math.Float32frombits(math.Float32bits(*v) ^ 1) }
	cases := []struct {
		name  string
		spoil func(h *pstest.History)
	}{
		{"a weight at the end", func(h *pstest.History) { flip(&h.Rows[0].Rows[0].Values[0]) }},
		{"a row is missing", func(h *pstest.History) { h.Rows[0].Rows = h.Rows[0].Rows[1:] }},
		{"a row too many", func(h *pstest.History) {
			extra := h.Rows[0].Rows[0]
			extra.Key = 1<<63 + 12345
			h.Rows[0].Rows = append(h.Rows[0].Rows, extra)
		}},
		{"a row was updated once more", func(h *pstest.History) { h.Rows[0].Rows[0].Sightings++ }},
		{"a read", func(h *pstest.History) { flip(read(h)) }},
		{"an acknowledged push has other contents", func(h *pstest.History) { acked(h, 40).Grads[0].Values[0]++ }},
		{"an acknowledged push was never applied", func(h *pstest.History) {
			p := *acked(h, 40)
			for i := range h.Pushes {
				if h.Pushes[i].Worker == p.Worker {
					p.Step = max(p.Step, h.Pushes[i].Step+1)
				}
			}
			h.Pushes = append(h.Pushes, p)
		}},
		{"a push was counted twice", func(h *pstest.History) {
			for s := range h.Servers {
				for g := range h.Servers[s].Groups {
					for j := range h.Servers[s].Groups[g].Jobs {
						h.Servers[s].Groups[g].Jobs[j].Applied++
					}
				}
			}
		}},
		{"replicas differ", func(h *pstest.History) { h.Servers[0].Groups[1].Digest += "1" }},
		{"a cursor", func(h *pstest.History) { resumed(h).Cursor[0]++ }},
		{"a session resumed too early", func(h *pstest.History) { resumed(h).Clock = 0 }},
		{"a fenced process was heard", func(h *pstest.History) {
			i := found("second life", slices.IndexFunc(h.Opens, func(o pstest.Open) bool { return o.Life > 0 }))
			p := *acked(h, 0)
			p.Who = h.Opens[i].Who
			p.Life, p.Call, p.Return = 0, h.Opens[i].Return+1, h.Opens[i].Return+2
			h.Pushes = append(h.Pushes, p)
		}},
		{"a duplicate was applied", func(h *pstest.History) {
			i := found("duplicate", slices.IndexFunc(h.Resends, func(r pstest.Resend) bool {
				return r.Known && r.Want == pstest.WantDuplicate && r.Answer.Duplicate
			}))
			h.Resends[i].Answer.Duplicate = false
		}},
		{"a client failed", func(h *pstest.History) { h.Failures = append(h.Failures, "it fell over") }},
	}
	for _, sync := range []wire.Sync{wire.BSP, wire.SSP, wire.ASP} {
		good, err := play(t, pstest.NewScenario(seedOf(sync)), pstest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := good.Save(dir); err != nil {
			t.Fatal(err)
		}
		load := func() *pstest.History {
			h, err := pstest.LoadHistory(dir)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		if h := load(); !reflect.DeepEqual(h, good) {
			t.Fatal("the history that was loaded is not the one that was saved")
		} else if err := pstest.Judge(h); err != nil {
			t.Fatalf("a good history, loaded, is judged bad: %v", err)
		}
		for _, tc := range cases {
			h := load()
			tc.spoil(h)
			if err := pstest.Judge(h); err == nil {
				t.Errorf("sync %d: %s: not found", sync, tc.name)
			} else {
				t.Logf("sync %d: %s: %.160s", sync, tc.name, err.Error())
			}
		}
	}
}
