package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
	"hcclps/worker/dataset"
)

func TestUniquerAgreesWithAMap(t *testing.T) {
	var u uniquer
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		in := make([]uint64, rng.IntN(300))
		for i := range in {
			in[i] = rng.Uint64N(uint64(rng.IntN(400) + 1))
			if rng.IntN(20) == 0 {
				in[i] = ^uint64(0)
			}
		}
		keys, index := u.find(in, nil, nil)
		want := slices.Clone(in)
		slices.Sort(want)
		want = slices.Compact(want)
		if !slices.Equal(keys, want) {
			t.Fatalf("keys %v, want %v", keys, want)
		}
		for i, k := range in {
			if keys[index[i]] != k {
				t.Fatalf("index of key %d is %d: %d", k, index[i], keys[index[i]])
			}
		}
	}
}

func TestCutDealsEveryKeyOnceToItsOwner(t *testing.T) {
	l := layout.Layout{HashSeed: 3, Shards: make([][]string, 4)}
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = uint64(i) * 977
	}
	var c cut
	for _, parts := range []int{1, 4, 64} {
		c.deal(l, parts, keys)
		seen := 0
		for s := range l.Shards {
			for p := range parts {
				at := c.of(s, p)
				if !slices.IsSorted(at) {
					t.Fatal("positions are not ascending")
				}
				seen += len(at)
				for _, i := range at {
					if int(l.Group(keys[i])) != s+1 || layout.PartOf(l.Partition(keys[i]), 4, parts) != p {
						t.Fatalf("key %d went to shard %d part %d", keys[i], s, p)
					}
				}
			}
		}
		if seen != len(keys) {
			t.Fatalf("%d parts: %d keys dealt, want %d", parts, seen, len(keys))
		}
	}
}

// batches is a Source whose batch b of an epoch has one row with key b.
type batches struct {
	n, epoch, at int
}

func (s *batches) Next(b *dataset.Batch) (bool, error) {
	if s.at >= s.n {
		s.epoch, s.at = s.epoch+1, 0
		return false, nil
	}
	*b = dataset.Batch{Rows: 1, Label: []float32{1}, Features: []dataset.Column{{Name: dataset.Features, Ragged: dataset.Ragged{
		Offsets: []int32{0, 1}, Keys: []uint64{uint64(s.epoch*1000 + s.at)}, Weights: []float32{1},
	}}}}
	s.at++
	return true, nil
}

// keysOf is the keys of a batch, none if it is empty.
func keysOf(b *dataset.Batch) []uint64 {
	if c := b.Column(dataset.Features); c != nil {
		return c.Keys
	}
	return nil
}

func (s *batches) Seek(epoch, batch int) error { s.epoch, s.at = epoch, batch; return nil }
func (*batches) Close() error                  { return nil }

func TestDealtGivesEachBatchOnceAndAllRanksTheSameSteps(t *testing.T) {
	for _, world := range []int{1, 2, 3, 5} {
		for _, n := range []int{1, 4, 6, 7} {
			count := map[uint64]int{}
			steps := -1
			for rank := range world {
				f := &dealt{src: &batches{n: n}, rank: rank, world: world, epochs: 2}
				got := 0
				for {
					var b dataset.Batch
					ok, err := f.next(context.Background(), &b)
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						break
					}
					got++
					for _, k := range keysOf(&b) {
						count[k]++
					}
				}
				if steps >= 0 && got != steps {
					t.Errorf("world %d, %d batches: rank %d has %d steps, rank 0 %d", world, n, rank, got, steps)
				}
				steps = got
			}
			if len(count) != 2*n {
				t.Errorf("world %d: %d batches seen, want %d", world, len(count), 2*n)
			}
			for k, c := range count {
				if c != 1 {
					t.Errorf("world %d: batch %d seen %d times", world, k, c)
				}
			}
		}
	}
}

func TestDealtResumesAtItsCursor(t *testing.T) {
	f := &dealt{src: &batches{n: 7}, rank: 1, world: 2, epochs: 3}
	var keys []uint64
	var cursors [][]byte
	for {
		var b dataset.Batch
		ok, err := f.next(context.Background(), &b)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		keys = append(keys, append(keysOf(&b), ^uint64(0))[0])
		cursors = append(cursors, f.cursor())
	}
	for i, cur := range cursors[:len(cursors)-1] {
		g := &dealt{src: &batches{n: 7}, rank: 1, world: 2, epochs: 3}
		if err := g.resume(cur); err != nil {
			t.Fatal(err)
		}
		var b dataset.Batch
		if ok, err := g.next(context.Background(), &b); !ok || err != nil {
			t.Fatalf("after %d: %v, %v", i, ok, err)
		}
		if got := append(keysOf(&b), ^uint64(0))[0]; got != keys[i+1] {
			t.Errorf("after step %d: batch %d, want %d", i, got, keys[i+1])
		}
	}
	if err := f.resume([]byte("another mode's cursor")); err == nil {
		t.Error("a foreign cursor was accepted")
	}
}

func TestGradientsOfOneTableAddUpInOrder(t *testing.T) {
	tab := Embedding{newTable(wire.Table{ID: 1, Dim: 2})}
	a := Gradient{Table: tab, Keys: []uint64{1, 5}, Values: []float32{1, 2, 3, 4}}
	b := Gradient{Table: tab, Keys: []uint64{0, 5, 9}, Values: []float32{10, 20, 30, 40, 50, 60}}
	got := addGradients(a, b)
	if !slices.Equal(got.Keys, []uint64{0, 1, 5, 9}) || !slices.Equal(got.Values, []float32{10, 20, 1, 2, 33, 44, 50, 60}) {
		t.Errorf("got %v %v", got.Keys, got.Values)
	}
}

func TestRefusedErrorsMatchTheirSentinels(t *testing.T) {
	for status, want := range map[wire.Status]error{
		wire.Fenced: ErrFenced, wire.Unknown: ErrExpelled, wire.Stopped: ErrStopped,
		wire.NonFinite: ErrNonFinite, wire.Past: ErrPast, wire.Lost: ErrLost,
	} {
		err := error(&RefusedError{Status: status, Detail: "why"})
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
		for _, s := range []error{ErrFenced, ErrExpelled, ErrStopped, ErrNonFinite, ErrPast, ErrLost} {
			if s.Error() != want.Error() && errors.Is(err, s) {
				t.Errorf("%v is %v", err, s)
			}
		}
	}
}

// An answer after which another try can help is no RefusedError: one at the
// deadline of a lease's renewal would end the session.
func TestOnlyFinalAnswersAreRefusals(t *testing.T) {
	var c cluster
	for s := wire.OK; s <= wire.Lost; s++ {
		_, err := c.verdict(wire.Answer{Status: s})
		passing := s == wire.OK || s == wire.NotLeader || s == wire.Busy || s == wire.Pending
		if _, final := errors.AsType[*RefusedError](err); final == passing {
			t.Errorf("%v: %v, want a refusal: %v", s, err, !passing)
		}
	}
}

func TestConfigValidateNamesEveryFault(t *testing.T) {
	err := Config{Rank: 3, World: 2, Staleness: 1, Parts: 3, Deadline: -1}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"no server", "rank 3", "staleness", "3 parts", "deadline"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %q", want, err)
		}
	}
}
