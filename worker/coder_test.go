package worker

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hcclps/compress"
	"hcclps/ps/layout"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// sender is what encodes the pushes of a worker to four shards, in two parts, and sends nothing.
func sender(t testing.TB, log *slog.Logger) *servers {
	t.Helper()
	members := []layout.Member{{ID: "a", Name: "a", Addr: "a:1"}}
	l, err := layout.New(layout.Config{Cluster: "c", Members: members, Replicas: 1, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg := Config{Worker: "w", Seed: 7, Logger: log}
	s := &servers{cluster: &cluster{layout: l, counters: &counters{}}, cfg: cfg, coders: newCoders(cfg)}
	s.session.params.Parts = 2
	s.sent.s = s
	return s
}

// tables are a dense tensor, whose last block is short, and an embedding table.
func coderTables(codec string) (Dense, Embedding) {
	d := wire.Table{ID: 1, Name: "dense", Shape: []uint32{5, 1000}, Dim: wire.Block, NonFinite: update.Reject, Compress: codec}
	e := wire.Table{ID: 2, Name: "rows", Dim: 10, NonFinite: update.Reject, Compress: codec}
	return Dense{newTable(d), []int{5, 1000}}, Embedding{newTable(e)}
}

// gradientsOf are some of a step.
func gradientsOf(r *rand.Rand, d Dense, e Embedding) []Gradient {
	g := []Gradient{{Table: e}, {Table: d, Values: make([]float32, 5000)}}
	for k := range uint64(200) {
		if r.IntN(3) == 0 {
			g[0].Keys = append(g[0].Keys, k<<40|k)
		}
	}
	g[0].Values = make([]float32, 10*len(g[0].Keys))
	for i := range g {
		for j := range g[i].Values {
			g[i].Values[j] = float32(r.NormFloat64())
		}
	}
	return g
}

// bytesOf encodes a step, as it would be sent.
func bytesOf(t testing.TB, s *servers, step uint64, grads []Gradient) [][]byte {
	t.Helper()
	p, err := s.encode(&commit{step: step, rows: 1, grads: slices.Clone(grads)})
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for i := range p.bodies {
		b := make([]byte, p.bodies[i].Len())
		for off := 0; off < len(b); off += 100 { // in whatever pieces
			if err := p.bodies[i].Fill(off, b[off:min(off+100, len(b))]); err != nil {
				t.Fatal(err)
			}
		}
		sections, err := wire.DecodeSections(b)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := update.PlainSize(sections); err != nil || n != p.bodies[i].plain {
			t.Fatalf("body %d decodes to %d bytes, it says %d, %v", i, n, p.bodies[i].plain, err)
		}
		out = append(out, b)
	}
	return out
}

var testCodecs = []string{"none", "bf16", "fp16", "int8", "twobit", "onebit", "topk:0.05", "randomk:0.05"}

// What all shards decode over some steps, and what is left at the worker, is what was given.
func TestCodesAndResidualsAreTheGradients(t *testing.T) {
	for _, codec := range testCodecs {
		s := sender(t, nil)
		d, e := coderTables(codec)
		if codec == "none" {
			d.Compress, e.Compress = "none", "none"
		}
		r := rand.New(rand.NewPCG(1, 2))
		given, came := map[[2]uint64]float64{}, map[[2]uint64]float64{}
		for step := range uint64(12) {
			grads := gradientsOf(r, d, e)
			for i, v := range grads[1].Values {
				given[[2]uint64{1, uint64(i)}] += float64(v)
			}
			for i, v := range grads[0].Values {
				given[[2]uint64{2, grads[0].Keys[i/10]*16 + uint64(i%10)}] += float64(v)
			}
			var red update.Reducer
			for _, b := range bytesOf(t, s, step, grads) {
				sections, err := red.Sections(b)
				if err != nil {
					t.Fatal(err)
				}
				for _, sec := range sections {
					for i, v := range sec.Values {
						at := [2]uint64{1, sec.Keys[i/sec.Dim]*wire.Block + uint64(i%sec.Dim)}
						if sec.Table == 2 {
							at = [2]uint64{2, sec.Keys[i/sec.Dim]*16 + uint64(i%sec.Dim)}
						}
						came[at] += float64(v)
					}
				}
			}
		}
		for i, v := range s.coders.tables[1].dense.Residual() {
			came[[2]uint64{1, uint64(i)}] += float64(v)
		}
		keys, rest := s.coders.tables[2].rows.Residuals()
		for i, v := range rest {
			came[[2]uint64{2, keys[i/10]*16 + uint64(i%10)}] += float64(v)
		}
		for at, want := range given {
			if got := came[at]; math.Abs(got-want) > 1e-4 {
				t.Fatalf("%s: element %v: %v came, %v was given", codec, at, got, want)
			}
		}
		for at := range came {
			if _, ok := given[at]; !ok && came[at] != 0 {
				t.Fatalf("%s: element %v came, and was not given: %v", codec, at, came[at])
			}
		}
	}
}

// A step that is pushed again has the bytes it had; residuals have changed once.
func TestCodesOfAStepAreMadeOnce(t *testing.T) {
	for _, codec := range testCodecs[1:] {
		s := sender(t, nil)
		d, e := coderTables(codec)
		r := rand.New(rand.NewPCG(3, 4))
		for step := range uint64(3) {
			grads := gradientsOf(r, d, e)
			first := bytesOf(t, s, step, grads)
			residual := s.coders.encode()
			if again := bytesOf(t, s, step, grads); !slices.EqualFunc(first, again, bytes.Equal) || !bytes.Equal(residual, s.coders.encode()) {
				t.Fatalf("%s: other bytes when step %d is pushed again", codec, step)
			}
		}
	}
}

// A gradient that no codec can hold is refused before any residual has changed, or is mended.
func TestCodersLookAtGradients(t *testing.T) {
	s := sender(t, nil)
	d, e := coderTables("onebit")
	grads := gradientsOf(rand.New(rand.NewPCG(5, 6)), d, e)
	grads[1].Values[4097], grads[0].Values[23] = float32(math.Inf(1)), 1
	_, err := s.encode(&commit{grads: slices.Clone(grads)})
	if !errors.Is(err, ErrNonFinite) || !strings.Contains(err.Error(), `worker "w": table "dense", key 4: the gradient is +Inf`) {
		t.Errorf("%v", err)
	}
	for _, k := range s.coders.tables {
		if k.rest() != 0 {
			t.Errorf("table %q has a residual of a step that was refused", k.spec.Name)
		}
	}
	d.NonFinite = update.Clip
	s = sender(t, nil)
	if bytesOf(t, s, 0, grads); s.coders.tables[1].dense.Norm() < 1e18 || !math.IsInf(float64(grads[1].Values[4097]), 1) {
		t.Error("an infinity did not count as the largest number, or was mended where it was given")
	}
}

// On a slow link the shortest code is chosen, on a fast one none; one that keeps too much back is left, and that is said once.
func TestCodecsAreChosen(t *testing.T) {
	var said bytes.Buffer
	s := sender(t, slog.New(slog.NewTextHandler(&said, nil)))
	d, _ := coderTables(update.Auto)
	k, err := s.coders.of(d.spec())
	if err != nil {
		t.Fatal(err)
	}
	const many = 10 << 20
	choose := func(step uint64, bandwidth float64) string {
		s.coders.choose(k, step, many, func() compress.Link { return compress.Link{Bandwidth: bandwidth, Latency: time.Microsecond} })
		return k.codec.String()
	}
	if got := choose(0, 0); got != "none" {
		t.Errorf("on an unknown link %s", got)
	}
	if got := choose(chooseEvery, 1e15); got != "none" {
		t.Errorf("on a fast link %s", got)
	}
	if got := choose(chooseEvery+1, 1e6); got != "none" {
		t.Errorf("%s, one step after a choice", got)
	}
	if got := choose(2*chooseEvery, 1e6); got != "onebit" {
		t.Errorf("on a slow link %s", got)
	}
	if err := k.dense.Restore(slices.Repeat([]float32{1000}, 5000)); err != nil {
		t.Fatal(err)
	}
	gradient := slices.Repeat([]float32{1}, 5000)
	for step := range uint64(100 * watchEvery) {
		s.coders.look(k, step, gradient)
		if step%10 == 0 {
			choose(1, 1e6)
		}
	}
	if got := k.codec.String(); got == "onebit" {
		t.Error("a codec that keeps 1000 gradients back is still in use")
	}
	if n := strings.Count(said.String(), "keeps much of the gradient back"); n != 1 {
		t.Errorf("it was said %d times: %s", n, said.String())
	}
}

// A codec that the user has named is not changed, but spoken of.
func TestAlarm(t *testing.T) {
	var said bytes.Buffer
	s := sender(t, slog.New(slog.NewTextHandler(&said, nil)))
	d, e := coderTables("twobit")
	for _, table := range []Table{d, e} {
		if _, err := s.coders.of(table.spec()); err != nil {
			t.Fatal(err)
		}
	}
	k := s.coders.tables[1]
	gradient := slices.Repeat([]float32{1}, 5000)
	for step := range uint64(50 * watchEvery) {
		s.coders.look(k, step, gradient)
	}
	if said.Len() > 0 {
		t.Errorf("without cause: %s", said.String())
	}
	if err := k.dense.Restore(slices.Repeat([]float32{1000}, 5000)); err != nil {
		t.Fatal(err)
	}
	for step := range uint64(50 * watchEvery) {
		s.coders.look(k, step, gradient)
	}
	if !strings.Contains(said.String(), "table=dense") || !strings.Contains(said.String(), "--compress dense=int8") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("said: %s", said.String())
	}
}
