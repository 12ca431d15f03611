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
	tab := Embedding{newTable(wire.Table{ID: 1, Dim: 2})}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		r := &reading{table: tab}
		var all []uint64
		space, high := rng.Uint64N(400)+1, rng.Uint64()
		for range 1 + rng.IntN(4) {
			in := make([]uint64, rng.IntN(300))
			for i := range in {
				in[i] = rng.Uint64N(space)
				switch rng.IntN(20) {
				case 0:
					in[i] = ^uint64(0)
				case 1:
					in[i] ^= high
				}
			}
			r.use(Ragged{Keys: in})
			all = append(all, in...)
		}
		r.prepare(&u)
		slices.Sort(all)
		if !slices.Equal(r.keys, slices.Compact(all)) || len(r.rows) != 2*len(r.keys) {
			t.Fatalf("keys %v, want %v", r.keys, slices.Compact(all))
		}
		for _, o := range r.uses {
			var own []uint64
			for _, at := range o.at {
				own = append(own, r.keys[at])
			}
			want := slices.Clone(o.bags.Keys)
			slices.Sort(want)
			if want = slices.Compact(want); !slices.Equal(own, want) && len(r.uses) > 1 {
				t.Fatalf("a use's keys %v, want %v", own, want)
			}
			for j, k := range o.bags.Keys {
				if own[o.index[j]] != k {
					t.Fatalf("key %d has place %d, which is that of %d", k, o.index[j], own[o.index[j]])
				}
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
	r := &reading{table: tab, keys: []uint64{0, 1, 5, 9}, uses: make([]*operand, 2)}
	a := []share{
		{table: tab, keys: []uint64{1, 5}, values: []float32{1, 2, 3, 4}},
		{table: tab, keys: r.keys, at: []int32{1, 2}, values: []float32{1, 2, 3, 4}, reading: r},
	}
	b := []share{
		{table: tab, keys: []uint64{0, 5, 9}, values: []float32{10, 20, 30, 40, 50, 60}},
		{table: tab, keys: r.keys, at: []int32{0, 2, 3}, values: []float32{10, 20, 30, 40, 50, 60}, reading: r},
	}
	for i := range 4 { // of tallies, of one reading, of both
		sum := gradientSum{shares: []share{a[i/2], b[i%2]}}
		got := sum.total()
		if !slices.Equal(got.Keys, r.keys) || !slices.Equal(got.Values, []float32{10, 20, 1, 2, 33, 44, 50, 60}) {
			t.Errorf("%d: got %v %v", i, got.Keys, got.Values)
		}
	}
	part := gradientSum{shares: a[1:]} // the other use has no gradient
	if got := part.total(); !slices.Equal(got.Keys, []uint64{1, 5}) || !slices.Equal(got.Values, []float32{1, 2, 3, 4}) {
		t.Errorf("of one use of two: %v %v", got.Keys, got.Values)
	}
}

func TestAFollowersAnswerNamesWhomToAskNext(t *testing.T) {
	c := newCluster(nil, Config{}, &waits{}, &counters{})
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
