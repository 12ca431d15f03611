package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/worker"
	"hcclps/worker/model"
)

// Two runs with codecs have the same bits, on all workers, wherever the parameters are; and what is pushed is smaller.
func TestCompressedRunsHaveTheSameBits(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	for _, codec := range []string{"onebit", "bf16", "randomk:0.1,user=fp16"} {
		how, err := worker.ParseCompression(codec)
		if err != nil {
			t.Fatal(err)
		}
		for mode, servers := range map[worker.Mode]*ps.Local{worker.PS: l, worker.AllReduce: nil, worker.Hybrid: l} {
			var digests [2]string
			for run := range digests {
				train := fitted(model.Options{Model: model.NameDeepFM, Optimizer: worker.Optimizer{Name: "adagrad"}}, stream{rows: 200, batch: 50}, worker.TrainOptions{})
				digests[run] = crew{
					cfg:     worker.Config{Job: fmt.Sprintf("%s/%v/%d", codec, mode, run), World: 2, Seed: 5, Mode: mode, Compress: how},
					servers: servers,
					train: func(ctx context.Context, c *worker.Client) error {
						err := train(ctx, c)
						if s := c.Stats(); err == nil && s.PushedBytes > s.PushedBytesRaw*3/4 {
							err = fmt.Errorf("%d bytes pushed, %d without a codec", s.PushedBytes, s.PushedBytesRaw)
						}
						return err
					},
				}.run(t)
			}
			if digests[0] != digests[1] {
				t.Errorf("%s, %v: digest %.8s, then %.8s", codec, mode, digests[0], digests[1])
			}
		}
	}
}

// Servers that log and replicate have the bits of one that does not, where workers push codes.
func TestCodesAreReplicated(t *testing.T) {
	t.Parallel()
	run := func(l *ps.Local) string {
		train := fitted(model.Options{Model: model.NameLR, Optimizer: worker.Optimizer{Name: "adam"}}, stream{rows: 200, batch: 32}, worker.TrainOptions{Epochs: 2})
		return crew{cfg: worker.Config{Job: "codes", World: 2, Seed: 5, Parts: 2, Compress: worker.Compression{All: "onebit"}}, servers: l, train: train}.run(t)
	}
	replicated := pstest.Serve(t, ps.LocalConfig{LogBudget: 4 << 20, Shards: 2}) // as many: rows share scales with others of their shard
	if a, b := run(scratch(t)), run(replicated); a != b {
		t.Errorf("digest %.8s in place, %.8s of three replicas", a, b)
	}
}

// A worker that is the only one of an AllReduce job sends nothing, and loses nothing by a codec.
func TestNothingIsCodedForNobody(t *testing.T) {
	t.Parallel()
	run := func(c worker.Compression) string {
		return crew{cfg: worker.Config{Job: "alone", Mode: worker.AllReduce, Compress: c}, train: ends(worker.TrainOptions{}, nil), apart: true}.run(t)
	}
	if a, b := run(worker.Compression{}), run(worker.Compression{All: "onebit"}); a != b {
		t.Errorf("digest %.8s with a codec, %.8s without", b, a)
	}
}

// Workers choose codecs themselves, and agree on them where they must.
func TestWorkersChooseCodecs(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	for mode, servers := range map[worker.Mode]*ps.Local{worker.PS: l, worker.AllReduce: nil, worker.Hybrid: l} {
		train := fitted(model.Options{Model: model.NameDeepFM, Hidden: []int{256, 128}, Optimizer: worker.Optimizer{Name: "adagrad"}}, stream{rows: 600, batch: 8}, worker.TrainOptions{Epochs: 2})
		crew{cfg: worker.Config{Job: fmt.Sprintf("auto/%v", mode), World: 2, Mode: mode, Compress: worker.Compression{All: "auto"}}, servers: servers, train: train}.run(t)
	}
}

// A table's codec is part of its description: who names another one is told, who names none takes it.
func TestCodecIsPartOfATable(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	first := connect(t, l, worker.Config{Job: "part", World: 2, Compress: worker.Compression{Tables: map[string]string{"a": "onebit"}}})
	defer first.Abandon()
	if e, err := first.Embedding(t.Context(), "a", worker.EmbeddingSpec{Dim: 4}); err != nil || e.Compress != "onebit" {
		t.Fatalf("%q, %v", e.Compress, err)
	}
	if e, err := first.Embedding(t.Context(), "b", worker.EmbeddingSpec{Dim: 4, Compress: "topk:0.010"}); err != nil || e.Compress != "topk" {
		t.Fatalf("%q, %v", e.Compress, err)
	}
	second := connect(t, l, worker.Config{Job: "part", World: 2, Rank: 1, Compress: worker.Compression{Tables: map[string]string{"b": "int8"}}})
	defer second.Abandon()
	if e, err := second.Embedding(t.Context(), "a", worker.EmbeddingSpec{Dim: 4}); err != nil || e.Compress != "onebit" {
		t.Errorf("%q, %v", e.Compress, err)
	}
	if _, err := second.Embedding(t.Context(), "b", worker.EmbeddingSpec{Dim: 4}); err == nil || !strings.Contains(err.Error(), "int8") {
		t.Errorf("another codec: %v", err)
	}
	if _, err := second.Dense(t.Context(), "c", []int{3}, worker.DenseSpec{Compress: "zip"}); err == nil || !strings.Contains(err.Error(), "zip") {
		t.Errorf("no codec: %v", err)
	}
}

// Weights that come in 16 bits take half the bytes, and give the same bits in every run; the end of a job is read as it is.
func TestWeightsInHalves(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	var digests []string
	var pulled []uint64
	for _, form := range []string{"off", "bf16", "bf16", "fp16"} {
		train := fitted(model.Options{Model: model.NameFM, Optimizer: worker.Optimizer{Name: "adagrad"}}, stream{rows: 300, batch: 64}, worker.TrainOptions{NoPrefetch: true})
		var n uint64
		digests = append(digests, crew{
			cfg: worker.Config{Job: fmt.Sprintf("halves/%d", len(digests)), Seed: 5, PullAs: form}, servers: l,
			train: func(ctx context.Context, c *worker.Client) error {
				err := train(ctx, c)
				n = c.Stats().PulledBytes
				return err
			},
		}.run(t))
		pulled = append(pulled, n)
	}
	if digests[0] == digests[1] || digests[1] != digests[2] || digests[1] == digests[3] {
		t.Errorf("digests %.8s as they are, %.8s and %.8s in bf16, %.8s in fp16", digests[0], digests[1], digests[2], digests[3])
	}
	if pulled[1] != pulled[0]/2 || pulled[3] != pulled[0]/2 {
		t.Errorf("%v bytes were pulled", pulled)
	}
	if _, err := worker.Connect(t.Context(), worker.Config{Servers: []string{"a:1"}, PullAs: "int8"}); err == nil || !strings.Contains(err.Error(), `"int8"`) {
		t.Errorf("weights in int8: %v", err)
	}
}

// A codec for a table that the model does not have is a mistake.
func TestCodecOfNoTable(t *testing.T) {
	t.Parallel()
	c := connect(t, scratch(t), worker.Config{Job: "none", Compress: worker.Compression{Tables: map[string]string{"row": "onebit"}}})
	defer c.Abandon()
	m, err := newShared(t.Context(), c, sgd(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Train(t.Context(), m, &stream{rows: 10, batch: 5}, worker.TrainOptions{}); err == nil || !strings.Contains(err.Error(), `"row", which does not exist: there are ["rows" "weight"]`) {
		t.Errorf("%v", err)
	}
}

func TestParseCompression(t *testing.T) {
	for s, want := range map[string]string{
		"": "{ map[]}", "onebit": "{onebit map[]}", "user=fp16,topk:0.02,a.b=off": "{topk:0.02 map[a.b:off user:fp16]}", "auto": "{auto map[]}", "off": "{off map[]}",
	} {
		if c, err := worker.ParseCompression(s); err != nil || fmt.Sprint(c) != want {
			t.Errorf("%q: %v, %v, want %s", s, c, err, want)
		}
	}
	for _, s := range []string{"zip", "a=zip", "onebit,int8", "a=int8,a=int8", "=int8", "topk:2", "a=", ",", "int8,"} {
		if c, err := worker.ParseCompression(s); err == nil {
			t.Errorf("%q: %v", s, c)
		}
	}
}
