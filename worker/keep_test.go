package worker_test

import (
	"context"
	"fmt"
	"testing"

	"hcclps/ps"
	"hcclps/ps/wire"
	"hcclps/worker"
	"hcclps/worker/model"
)

// TestKeepingGivesTheSameBits trains with rules of admission and eviction, with servers and without: the same rows are there.
func TestKeepingGivesTheSameBits(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	train := func(admit, evict string) func(context.Context, *worker.Client) error {
		o := model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adagrad"}}
		var err error
		if o.Admit, err = worker.ParseAdmit(admit); err != nil {
			t.Fatal(err)
		}
		if o.Evict, err = worker.ParseEvict(evict); err != nil {
			t.Fatal(err)
		}
		return fitted(o, stream{rows: 500, batch: 16}, worker.TrainOptions{Epochs: 2})
	}
	cfg := worker.Config{Job: "all", World: 2, Seed: 5, RankOrder: true}
	all := crew{cfg: cfg, servers: l, train: train("", "")}.run(t)
	for _, rules := range [][2]string{{"count:2", ""}, {"bloom:3,16", "lfu:2"}, {"prob:0.3", "ttl:3steps"}, {"count:3", "l2:0.05,rows:1024"}} {
		cfg.Mode, cfg.Job = worker.PS, fmt.Sprint(rules)
		want := crew{cfg: cfg, servers: l, train: train(rules[0], rules[1])}.run(t)
		if want == all {
			t.Errorf("%q: the rules change nothing", rules)
		}
		for mode, servers := range map[worker.Mode]*ps.Local{worker.AllReduce: nil, worker.Hybrid: l} {
			cfg.Mode, cfg.Job = mode, fmt.Sprint(rules, mode)
			if got := (crew{cfg: cfg, servers: servers, train: train(rules[0], rules[1])}.run(t)); got != want {
				t.Errorf("%q: digest %.8s with %v, %.8s with servers", rules, got, mode, want)
			}
		}
	}
}

// TestRefusedRulesAreNamed: a dense tensor takes none, and a table's description is one.
func TestRefusedRulesAreNamed(t *testing.T) {
	t.Parallel()
	c, err := worker.Connect(t.Context(), worker.Config{Job: "rules", Mode: worker.AllReduce})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	if _, err := c.Embedding(t.Context(), "bad", worker.EmbeddingSpec{Admit: worker.Admit{Kind: wire.AdmitCount}}); err == nil {
		t.Error("a table that admits at the sighting of number 0 was made")
	}
	if _, err := c.Embedding(t.Context(), "e", worker.EmbeddingSpec{Admit: worker.Admit{Kind: wire.AdmitCount, Count: 2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Embedding(t.Context(), "e", worker.EmbeddingSpec{}); err == nil {
		t.Error("the same table without its admission was found")
	}
}
