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

// spoil makes a good history bad.
type spoil struct {
	name string
	do   func(f finder, h *pstest.History)
}

// finder finds what there must be in a history.
type finder struct{ t *testing.T }

// index is one that must not be negative.
func (f finder) index(what string, i int) int {
	f.t.Helper()
	if i < 0 {
		f.t.Fatalf("the history has no %s", what)
	}
	return i
}

// acked is an acknowledged push with gradients, the first at or after a place. It
// is the only push of its step: of several attempts any may be the one applied.
func (f finder) acked(h *pstest.History, at int) *pstest.Push {
	f.t.Helper()
	i := slices.IndexFunc(h.Pushes[at:], func(p pstest.Push) bool {
		attempts := 0
		for _, o := range h.Pushes {
			if o.Job == p.Job && o.Worker == p.Worker && o.Step == p.Step {
				attempts++
			}
		}
		return p.Outcome == pstest.Acked && attempts == 1 && p.Rows > 0 && len(p.Grads) > 0 && len(p.Grads[0].Values) > 0
	})
	return &h.Pushes[at+f.index("acknowledged push", i)]
}

// read is a value of the last pull that shows exactly one clock.
func (f finder) read(h *pstest.History) *float32 {
	f.t.Helper()
	for _, p := range slices.Backward(h.Pulls) {
		if p.Step != wire.Infinity && !p.First && len(p.Rows) > 0 && len(p.Rows[0].Values) > 0 {
			return &p.Rows[0].Values[0]
		}
	}
	f.t.Fatal("nothing was read")
	return nil
}

// resumed is a session that resumed after a step.
func (f finder) resumed(h *pstest.History) *pstest.Open {
	f.t.Helper()
	return &h.Opens[f.index("resumed session", slices.IndexFunc(h.Opens, func(o pstest.Open) bool { return o.Clock > 0 }))]
}

func flip(v *float32) { *v = math.Float32frombits(math.Float32bits(*v) ^ 1) }

// spoiltRows are faults in rows and contents.
func spoiltRows() []spoil {
	return []spoil{
		{"a weight at the end", func(_ finder, h *pstest.History) { flip(&h.Rows[0].Rows[0].Values[0]) }},
		{"a row is missing", func(_ finder, h *pstest.History) { h.Rows[0].Rows = h.Rows[0].Rows[1:] }},
		{"a row too many", func(_ finder, h *pstest.History) {
			extra := h.Rows[0].Rows[0]
			extra.Key = 1<<63 + 12345
			h.Rows[0].Rows = append(h.Rows[0].Rows, extra)
		}},
		{"a row was updated once more", func(_ finder, h *pstest.History) { h.Rows[0].Rows[0].Sightings++ }},
		{"a read", func(f finder, h *pstest.History) { flip(f.read(h)) }},
		{"an acknowledged push has other contents", func(f finder, h *pstest.History) { f.acked(h, 40).Grads[0].Values[0]++ }},
		{"an acknowledged push was never applied", func(f finder, h *pstest.History) {
			p := *f.acked(h, 40)
			for i := range h.Pushes {
				if h.Pushes[i].Worker == p.Worker {
					p.Step = max(p.Step, h.Pushes[i].Step+1)
				}
			}
			h.Pushes = append(h.Pushes, p)
		}},
	}
}

// spoiltRecords are faults in what is kept of sessions, steps and replicas.
func spoiltRecords() []spoil {
	return []spoil{
		{"a push was counted twice", func(_ finder, h *pstest.History) {
			for s := range h.Servers {
				for g := range h.Servers[s].Groups {
					for j := range h.Servers[s].Groups[g].Jobs {
						h.Servers[s].Groups[g].Jobs[j].Applied++
					}
				}
			}
		}},
		{"replicas differ", func(_ finder, h *pstest.History) { h.Servers[0].Groups[1].Digest += "1" }},
		{"a cursor", func(f finder, h *pstest.History) { f.resumed(h).Cursor[0]++ }},
		{"a session resumed too early", func(f finder, h *pstest.History) { f.resumed(h).Clock = 0 }},
		{"a fenced process was heard", func(f finder, h *pstest.History) {
			o := h.Opens[f.index("second life", slices.IndexFunc(h.Opens, func(o pstest.Open) bool { return o.Life > 0 }))]
			p := *f.acked(h, 0)
			p.Who = o.Who
			p.Life, p.Call, p.Return = 0, o.Return+1, o.Return+2
			h.Pushes = append(h.Pushes, p)
		}},
		{"a duplicate was applied", func(f finder, h *pstest.History) {
			i := slices.IndexFunc(h.Resends, func(r pstest.Resend) bool {
				return r.Known && r.Want == pstest.WantDuplicate && r.Answer.Duplicate
			})
			h.Resends[f.index("duplicate", i)].Answer.Duplicate = false
		}},
		{"a worker has completed endless steps", func(f finder, h *pstest.History) { f.resumed(h).Clock = wire.Infinity }},
		{"a client failed", func(_ finder, h *pstest.History) { h.Failures = append(h.Failures, "it fell over") }},
	}
}

// What is wrong in a history is found: each case spoils a good one.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
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
		for _, tc := range slices.Concat(spoiltRows(), spoiltRecords()) {
			h := load()
			tc.do(finder{t}, h)
			if err := pstest.Judge(h); err == nil {
				t.Errorf("sync %d: %s: not found", sync, tc.name)
			} else {
				t.Logf("sync %d: %s: %.160s", sync, tc.name, err.Error())
			}
		}
	}
}
