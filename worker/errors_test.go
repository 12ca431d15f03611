package worker_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/inproc"
	"hcclps/ps"
	"hcclps/worker"
)

func TestALaterSessionFencesTheEarlierAndShowsBoth(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	old := connect(t, l, worker.Config{Job: "fence"})
	e, err := old.Embedding(t.Context(), "e", worker.EmbeddingSpec{})
	if err != nil {
		t.Fatal(err)
	}
	g := worker.Gradient{Table: e, Keys: []uint64{7}, Values: []float32{1}}
	if err := old.Push(t.Context(), 1, []byte("one"), g); err != nil {
		t.Fatal(err)
	}
	c := connect(t, l, worker.Config{Job: "fence"})
	defer end(t, c)
	if c.Clock() != 1 || string(c.Cursor()) != "one" {
		t.Errorf("resumed at step %d, cursor %q", c.Clock(), c.Cursor())
	}
	err = old.Push(t.Context(), 1, nil, g)
	if !errors.Is(err, worker.ErrFenced) {
		t.Fatalf("push of the old session: %v, want fenced", err)
	}
	if n := strings.Count(err.Error(), "pid"); n < 2 {
		t.Errorf("both sessions should be shown: %v", err)
	}
	end(t, old)
}

func TestRefusalsNameWhatAndWhere(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	c := connect(t, l, worker.Config{Job: "no", Worker: "ann", World: 2})
	defer end(t, c)
	says := func(what string, err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: accepted", what)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in %q", what, w, err)
			}
		}
	}
	_, err := dial(t.Context(), l, worker.Config{Job: "no", Worker: "bob", World: 2})
	says("two names for one rank", err, "ann", "bob", "rank 0")
	_, err = dial(t.Context(), l, worker.Config{Job: "no", Worker: "bob", Rank: 1, World: 2, Sync: worker.ASP})
	says("other parameters", err, "bob")
	if _, err = c.Embedding(t.Context(), "e", worker.EmbeddingSpec{Dim: 2}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Embedding(t.Context(), "e", worker.EmbeddingSpec{Dim: 3})
	says("a differing table", err, `"e"`, "2", "3")
	_, err = c.Embedding(t.Context(), "f", worker.EmbeddingSpec{Optimizer: worker.Optimizer{Name: "adagrda"}})
	says("an unknown optimizer", err, "adagrda", "adagrad")
	_, err = c.Embedding(t.Context(), "f", worker.EmbeddingSpec{Init: worker.Init{Name: "unifrom"}})
	says("an unknown initializer", err, "unifrom", "uniform")
	_, err = c.Dense(t.Context(), "d", nil, worker.DenseSpec{})
	says("a shapeless tensor", err, "no shape")

	one := connect(t, l, worker.Config{Job: "nan", Worker: "cid"})
	defer end(t, one)
	e, err := one.Embedding(t.Context(), "emb", worker.EmbeddingSpec{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	err = one.Push(t.Context(), 1, nil, worker.Gradient{Table: e, Keys: []uint64{1, 77}, Values: []float32{1, 2, 3, float32(math.NaN())}})
	if !errors.Is(err, worker.ErrNonFinite) {
		t.Errorf("not a non-finite refusal: %v", err)
	}
	says("a NaN", err, "cid", "emb", "77", "step 0")
	says("keys out of order", one.Pull(t.Context(), worker.Read{Table: e, Keys: []uint64{2, 1}, Out: make([]float32, 4)}), "ascending")
	says("too little room", one.Pull(t.Context(), worker.Read{Table: e, Keys: []uint64{2}, Out: make([]float32, 1)}), "emb")
}

func TestNobodyThereIsSaidWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := worker.Connect(t.Context(), worker.Config{Servers: []string{"nowhere:1", "elsewhere:2"}, Network: inproc.NewNetwork()})
		if err == nil || !strings.Contains(err.Error(), "nowhere:1") || !strings.Contains(err.Error(), "elsewhere:2") || !strings.Contains(err.Error(), "start ps-server there, or name others (Servers, --servers)") {
			t.Errorf("error %v: want both addresses, and what to do", err)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestAWaitSaysForWhom(t *testing.T) {
	t.Parallel()
	// The servers say so after 20 s; a worker whose own deadline is shorter asks them.
	for _, deadline := range []time.Duration{5 * time.Second, 25 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l, err := ps.NewLocal(ps.LocalConfig{LogBudget: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			err = l.With(t.Context(), func(ctx context.Context) error {
				c, err := dial(ctx, l, worker.Config{Job: "alone", World: 2, Deadline: deadline})
				if err != nil {
					return err
				}
				defer c.Abandon()
				for what, err := range map[string]error{"push": c.Push(ctx, 1, nil), "pull": c.PullFinal(ctx)} {
					if err == nil || !strings.Contains(err.Error(), "rank 1 of 2 to open") {
						t.Errorf("%s without rank 1, deadline %v: %v", what, deadline, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
