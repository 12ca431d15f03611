package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
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
		for _, n := range []int{1, 4, 6, 7, 23} {
			accumulate := 1 + n%4
			count := map[uint64]int{}
			steps := -1
			for rank := range world {
				f := &dealt{src: &batches{n: n}, rank: rank, world: world, epochs: 2, accumulate: accumulate}
				got := 0
				for {
					var b dataset.Batch
					turn, err := f.next(context.Background(), &b, true)
					if err != nil {
						t.Fatal(err)
					}
					if turn == over {
						break
					}
					if turn == fresh {
						got++
					}
					for _, k := range keysOf(&b) {
						count[k]++
					}
				}
				if steps >= 0 && got != steps {
					t.Errorf("world %d, %d batches: rank %d has %d steps, rank 0 %d", world, n, rank, got, steps)
				}
				steps = got
			}
			if want := 2 * ((n + world*accumulate - 1) / (world * accumulate)); steps != want {
				t.Errorf("world %d, %d batches, %d a step: %d steps, want %d", world, n, accumulate, steps, want)
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

// dealtSteps is the keys of each step, and the cursor after it.
func dealtSteps(t *testing.T, f *dealt) (steps [][]uint64, cursors [][]byte) {
	t.Helper()
	for {
		var b dataset.Batch
		cursor := f.cursor()
		turn, err := f.next(context.Background(), &b, true)
		if err != nil {
			t.Fatal(err)
		}
		if turn != another && len(steps) > 0 {
			cursors = append(cursors, cursor)
		}
		switch turn {
		case over:
			return steps, cursors
		case fresh:
			steps = append(steps, slices.Clone(keysOf(&b)))
		default:
			steps[len(steps)-1] = append(steps[len(steps)-1], keysOf(&b)...)
		}
	}
}

func TestDealtResumesAtItsCursor(t *testing.T) {
	for _, accumulate := range []int{1, 2, 3} {
		deal := func() *dealt {
			return &dealt{src: &batches{n: 7}, rank: 1, world: 2, epochs: 3, accumulate: accumulate}
		}
		steps, cursors := dealtSteps(t, deal())
		for i, cur := range cursors {
			f := deal()
			if err := f.resume(cur); err != nil {
				t.Fatal(err)
			}
			if rest, _ := dealtSteps(t, f); !reflect.DeepEqual(rest, append([][]uint64(nil), steps[i+1:]...)) {
				t.Errorf("%d a step, after step %d: %v, want %v", accumulate, i, rest, steps[i+1:])
			}
		}
		f := deal()
		if err := f.resume([]byte("another mode's cursor")); err == nil {
			t.Error("a foreign cursor was accepted")
		}
		f.accumulate++
		if err := f.resume(cursors[0]); err == nil {
			t.Error("the cursor of steps of another size was accepted")
		}
	}
}

// A step of several batches has the rows that one of a large batch has.
func TestDealtStepsAreLargeBatches(t *testing.T) {
	const small, n = 24, 4
	for _, world := range []int{1, 2, 3} {
		for rank := range world {
			got, _ := dealtSteps(t, &dealt{src: &batches{n: small}, rank: rank, world: world, epochs: 1, accumulate: n})
			var want [][]uint64
			for large := rank; large < small/n; large += world {
				var keys []uint64
				for b := range n {
					keys = append(keys, uint64(large*n+b))
				}
				want = append(want, keys)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("world %d, rank %d: %v, want %v", world, rank, got, want)
			}
		}
	}
}

func TestGradientsOfOneTableAddUpInOrder(t *testing.T) {
	tab := Embedding{newTable(wire.Table{ID: 1, Dim: 2})}
	a := Gradient{Table: tab, Keys: []uint64{1, 5}, Values: []float32{1, 2, 3, 4}}
	b := Gradient{Table: tab, Keys: []uint64{0, 5, 9}, Values: []float32{10, 20, 30, 40, 50, 60}}
	sum := gradientSum{of: []Gradient{a, b}}
	got := sum.total()
	if !slices.Equal(got.Keys, []uint64{0, 1, 5, 9}) || !slices.Equal(got.Values, []float32{10, 20, 1, 2, 33, 44, 50, 60}) {
		t.Errorf("got %v %v", got.Keys, got.Values)
	}
}

func TestAFollowersAnswerNamesWhomToAskNext(t *testing.T) {
	c := newCluster(nil, Config{})
	c.layout = layout.Layout{Members: []layout.Member{{ID: "1", Name: "s1", Addr: "a1"}, {ID: "2", Name: "s2", Addr: "a2"}}}
	for _, step := range []struct{ asked, leader, next string }{
		{"a1", "", "a1"},     // the leader answered
		{"a1", "2", "a2"},    // a follower did
		{"a2", "gone", "a2"}, // one that follows somebody we do not know
	} {
		c.answered(1, step.asked, wire.Answer{Leader: step.leader})
		if got := c.leader(1); got != step.next {
			t.Errorf("%s answered, leader %q: %s is asked next, want %s", step.asked, step.leader, got, step.next)
		}
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
