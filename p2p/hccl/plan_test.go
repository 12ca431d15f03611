package hccl

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/p2p"
)

// steps plans until nothing can be done.
func (p *plan) steps(t *testing.T) []step {
	t.Helper()
	var all []step
	for {
		s, ok, err := p.next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, s)
	}
}

func TestPlan(t *testing.T) {
	p := &plan{piece: 10, whole: 100}
	expect := func(what string, want ...step) {
		t.Helper()
		if got := p.steps(t); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("nothing posted")
	p.flow[0].sends.push(posted{25, false})
	p.flow[0].staged = 2
	expect("no receive posted")
	p.flow[0].recvs.push(posted{25, false})
	expect("no room")
	p.flow[0].room = 3
	expect("two pieces staged", step{0, 10, false}, step{0, 10, false})
	p.flow[0].staged = 1
	expect("the last piece", step{0, 5, true})

	p.flow[1].sends.push(posted{0, false})
	expect("an empty message without its receive")
	p.flow[1].recvs.push(posted{0, true})
	expect("an empty message needs no room", step{1, 0, true})

	p.flow[1].sends.push(posted{250, true})
	p.flow[1].recvs.push(posted{250, true})
	expect("device to device", step{1, 100, false}, step{1, 100, false}, step{1, 50, true})

	p.flow[1].sends.push(posted{15, true})
	p.flow[1].recvs.push(posted{15, false})
	expect("device to host waits for room")
	p.flow[1].room = 2
	expect("device to host", step{1, 10, false}, step{1, 5, true})

	for f := range flows {
		p.flow[f].sends.push(posted{20, false})
		p.flow[f].recvs.push(posted{20, false})
		p.flow[f].staged, p.flow[f].room = 2, 2
	}
	expect("flows take turns", step{0, 10, false}, step{1, 10, false}, step{0, 10, true}, step{1, 10, true})

	p.flow[0].sends.push(posted{1, true})
	p.flow[0].recvs.push(posted{2, true})
	if _, _, err := p.next(); !errors.Is(err, p2p.ErrLength) {
		t.Errorf("lengths differ: %v", err)
	}
}

// Whatever the order of events, every byte of every message is planned once, in order, and never before both sides
// are ready for it.
func TestPlanOfRandomEvents(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := &plan{piece: 8, whole: 30}
		var lengths [flows][]uint64
		var given, sends, recvs [flows]int
		var planned [flows][]uint64
		for f := range flows {
			for range 20 {
				lengths[f] = append(lengths[f], rng.Uint64N(40))
			}
			planned[f] = make([]uint64, 20)
		}
		for round := 0; round < 100_000 && (given[0] < 20 || given[1] < 20); round++ {
			f := rng.IntN(flows)
			switch w := &p.flow[f]; rng.IntN(5) {
			case 0:
				if sends[f] < 20 {
					w.sends.push(posted{lengths[f][sends[f]], rng.IntN(2) == 0})
					sends[f]++
				}
			case 1:
				if recvs[f] < 20 {
					w.recvs.push(posted{lengths[f][recvs[f]], rng.IntN(2) == 0})
					recvs[f]++
				}
			case 2:
				w.staged++
			case 3:
				w.room++
			default:
				s, ok, err := p.next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					continue
				}
				i := given[s.flow]
				if i >= sends[s.flow] || i >= recvs[s.flow] || p.flow[s.flow].staged < 0 || p.flow[s.flow].room < 0 {
					t.Fatalf("seed %d: step %+v too early", seed, s)
				}
				planned[s.flow][i] += s.n
				if s.last {
					given[s.flow]++
				}
			}
		}
		for f := range flows {
			if !slices.Equal(planned[f], lengths[f]) {
				t.Fatalf("seed %d: flow %d planned %v of %v", seed, f, planned[f], lengths[f])
			}
		}
	}
}
