package worker_test

import (
	"context"
	"sync"
	"testing"

	"hcclps/internal/trace"
	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/worker"
	"hcclps/worker/model"
)

// TestProfile records jobs of two workers in every mode, the servers too, and judges what comes out as one trace.
func TestProfile(t *testing.T) {
	t.Parallel()
	for mode, want := range map[worker.Mode][]string{
		worker.PS:        {"train/push", "train/pull", "push/push", "pull/pull", "server/push", "server/pull", "server/apply", "server/wait", "train/wait"},
		worker.AllReduce: {"train/push", "collective/wait", "collective/queued"},
		worker.Hybrid:    {"train/push", "pull/pull", "server/apply", "collective/wait"},
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			profiled(t, mode, append(want, "train/step", "train/compute", "train/forward", "train/backward", "train/read", "data/read", "user/mine"))
		})
	}
}

// profiled trains and looks for spans by category and name.
func profiled(t *testing.T, mode worker.Mode, want []string) {
	t.Helper()
	rec := trace.New(trace.Config{Process: "servers", ID: 1000})
	rec.Start()
	l := pstest.Serve(t, ps.LocalConfig{Servers: 1, Scratch: true, Shards: 2, Trace: rec})
	fit := fitted(model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adagrad"}}, stream{rows: 700, batch: 64}, worker.TrainOptions{Epochs: 2})
	var mu sync.Mutex
	var traces []*trace.Trace
	var steps uint64
	w := crew{cfg: worker.Config{Job: "profiled", World: 2, Seed: 5, Mode: mode}, servers: l}
	if mode == worker.AllReduce {
		w.servers = nil
	}
	w.train = func(ctx context.Context, c *worker.Client) error {
		c.Profiler().Start()
		mine := c.Span("mine")
		c.Mark("a mark")
		err := fit(ctx, c)
		mine.End()
		c.Profiler().Stop()
		mu.Lock()
		defer mu.Unlock()
		traces = append(traces, c.Profiler().Trace())
		st := c.Stats()
		steps += st.Steps
		if st.Time.Compute <= 0 || st.Time.Push <= 0 || st.Time.Sum() < st.Time.Compute+st.Time.Push {
			t.Errorf("rank %d: time went to %+v", c.Rank(), st.Time)
		}
		return err
	}
	w.run(t)
	rec.Stop()
	m := trace.Merge(append(traces, rec.Trace())...)
	if err := trace.Check(&m.Trace, true); err != nil {
		t.Error(err)
	}
	if m.Unmatched > 0 {
		t.Errorf("%d flows have one end", m.Unmatched)
	}
	sum, seen := m.Summarize(), map[string]int{}
	for _, r := range sum.Rows {
		seen[r.Category+"/"+r.Name] = r.Count
	}
	for _, name := range want {
		if seen[name] == 0 {
			t.Errorf("%v: no span %s among %v", mode, name, seen)
		}
	}
	if uint64(sum.Steps) != steps || seen["train/compute"] > sum.Steps {
		t.Errorf("%d spans of steps, %d of models, %d steps", sum.Steps, seen["train/compute"], steps)
	}
}
