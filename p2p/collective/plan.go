package collective

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"hcclps/p2p"
)

// Grouping is a way for the ranks of a group to work together that suits their links.
type Grouping struct {
	Order []int // by new rank: the old one
	Hosts []int // by new rank: what Config.Hosts is to be; nil: one level
	Apart []int // new ranks that Config.Apart is to have
}

// Changes says whether the grouping is another than that of ranks in the order they have, on one level, with none apart.
func (p Grouping) Changes() bool {
	return p.Hosts != nil || p.Apart != nil || !slices.IsSorted(p.Order)
}

// Two rates or latencies are of one kind if they do not differ by more than this factor.
const alike = 3

// maxPolished is the most ranks whose order is improved beyond the nearest neighbours.
const maxPolished = 128

// Plan proposes a grouping by what the links were measured to be. A rank whose best link is much slower than the others' comes last, and is apart. Of the others
// those with much faster links between them than to the rest are a host. In the order of ranks, which is that of a ring, neighbours have fast links.
// The result is the same wherever the measurement is the same, as it is on all ranks of [Calibrate].
func Plan(c *Calibration) Grouping {
	p := planner{c: c}
	near, apart := p.apart()
	var hosts [][]int
	for _, h := range p.hosts(near) {
		hosts = append(hosts, p.ring(h))
	}
	out := Grouping{}
	for i, h := range p.chain(hosts) {
		for _, r := range h {
			out.Order = append(out.Order, r)
			out.Hosts = append(out.Hosts, i)
		}
	}
	if len(hosts) < 2 || len(hosts) == len(near) {
		out.Hosts = nil
	}
	for _, r := range apart {
		out.Apart = append(out.Apart, len(out.Order))
		if out.Order = append(out.Order, r); out.Hosts != nil {
			out.Hosts = append(out.Hosts, len(hosts)+len(out.Apart)-1)
		}
	}
	return out
}

// Regroup makes the group of the same ranks that works by a plan, with a Comm of its own and no Shared. All ranks call it with the same plan, with none of their operations
// between different ones: at the end of a step. The caller runs the new group in place of this one, which it closes.
func (g *Group) Regroup(ctx context.Context, p Grouping) (*Group, error) {
	if len(p.Order) != g.Size() {
		return nil, fmt.Errorf("regroup %d ranks by a plan for %d", g.Size(), len(p.Order))
	}
	open := g.cfg.Open
	next, err := g.sub(ctx, p.Order, func(c *Config) {
		c.Hosts, c.Apart = p.Hosts, p.Apart
		c.Open = func(ctx context.Context, ranks []int) (p2p.Comm, error) {
			old := make([]int, len(ranks))
			for i, r := range ranks {
				old[i] = p.Order[r]
			}
			return open(ctx, old)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("regroup at rank %d: %w", g.Rank(), err)
	}
	return next, nil
}

// Of is what was measured between some of the ranks, in the order of their new numbers.
func (c *Calibration) Of(ranks []int) *Calibration {
	of := *c
	of.Ranks = len(ranks)
	of.Latency, of.Bandwidth, of.Alone = pick(c.Latency, ranks), pick(c.Bandwidth, ranks), pick(c.Alone, ranks)
	return &of
}

func pick[T any](m [][]T, ranks []int) [][]T {
	var rows [][]T
	for _, a := range ranks {
		var row []T
		for _, b := range ranks {
			row = append(row, m[a][b])
		}
		rows = append(rows, row)
	}
	return rows
}

// planner looks at a calibration.
type planner struct{ c *Calibration }

// rate is what a link carries when nothing else goes on.
func (p planner) rate(a, b int) float64 { return max(p.c.Alone[a][b], 1) }

func (p planner) latency(a, b int) time.Duration { return max(p.c.Latency[a][b], time.Nanosecond) }

// best is the rate of a rank's fastest link, and the least latency that it has, to any of some ranks.
func (p planner) best(r int, others []int) (rate float64, latency time.Duration) {
	latency = math.MaxInt64
	for _, o := range others {
		if o != r {
			rate, latency = max(rate, p.rate(r, o)), min(latency, p.latency(r, o))
		}
	}
	return rate, latency
}

// apart tells the ranks that have fast links from those that have none.
func (p planner) apart() (near, apart []int) {
	all := make([]int, p.c.Ranks)
	for r := range all {
		all[r] = r
	}
	best := make([]float64, len(all))
	for r := range all {
		best[r], _ = p.best(r, all)
	}
	middle := slices.Sorted(slices.Values(best))[len(best)/2]
	for r := range all {
		if best[r]*alike < middle {
			apart = append(apart, r)
		} else {
			near = append(near, r)
		}
	}
	return near, apart
}

// hosts cuts ranks into those that are close together: linked by a chain of links that are nearly as good as the better end's best one.
func (p planner) hosts(ranks []int) [][]int {
	var hosts [][]int
	seen := make(map[int]bool)
	for _, first := range ranks {
		if seen[first] {
			continue
		}
		seen[first] = true
		host := []int{first}
		for i := 0; i < len(host); i++ {
			for _, r := range ranks {
				if !seen[r] && p.close(host[i], r, ranks) {
					seen[r] = true
					host = append(host, r)
				}
			}
		}
		hosts = append(hosts, host)
	}
	return hosts
}

func (p planner) close(a, b int, ranks []int) bool {
	rateA, latencyA := p.best(a, ranks)
	rateB, latencyB := p.best(b, ranks)
	return p.rate(a, b)*alike >= max(rateA, rateB) && p.latency(a, b) <= alike*min(latencyA, latencyB)
}

// length is what a link costs a ring: seconds for a piece.
func (p planner) length(a, b int) float64 {
	return p.latency(a, b).Seconds() + DefaultPiece/p.rate(a, b)
}

// around is the longest link of a ring, and the sum of all.
func (p planner) around(ring []int) (longest, sum float64) {
	for i, r := range ring {
		l := p.length(r, ring[(i+1)%len(ring)])
		longest, sum = max(longest, l), sum+l
	}
	return longest, sum
}

// ring orders ranks so that neighbours are close: from the first one always to the nearest, and then parts of it are turned around as long as that helps.
func (p planner) ring(ranks []int) []int {
	slices.Sort(ranks)
	if longest, sum := p.around(ranks); sum <= float64(len(ranks))*p.shortest(ranks)*alike && longest <= p.shortest(ranks)*alike {
		return ranks // all alike: the order that they have
	}
	ring, left := ranks[:1:1], slices.Clone(ranks[1:])
	for len(left) > 0 {
		last := ring[len(ring)-1]
		next := slices.MinFunc(left, func(a, b int) int {
			return cmp.Or(cmp.Compare(p.length(last, a), p.length(last, b)), cmp.Compare(a, b))
		})
		ring = append(ring, next)
		left = slices.DeleteFunc(left, func(r int) bool { return r == next })
	}
	for len(ring) <= maxPolished && p.polish(ring) {
		continue
	}
	return ring
}

func (p planner) shortest(ranks []int) float64 {
	least := math.Inf(1)
	for i, a := range ranks {
		for _, b := range ranks[i+1:] {
			least = min(least, p.length(a, b))
		}
	}
	return least
}

// polish turns the part of a ring around that shortens it, and says whether there was one.
func (p planner) polish(ring []int) bool {
	longest, sum := p.around(ring)
	for i := 1; i < len(ring); i++ {
		for j := i + 1; j < len(ring); j++ {
			slices.Reverse(ring[i : j+1])
			l, s := p.around(ring)
			if l < longest*(1-1e-9) || l <= longest && s < sum*(1-1e-9) {
				return true
			}
			slices.Reverse(ring[i : j+1])
		}
	}
	return false
}

// chain orders hosts so that those next to each other are close: as their first ranks are in a ring.
func (p planner) chain(hosts [][]int) [][]int {
	var first []int
	of := make(map[int][]int)
	for _, h := range hosts {
		first = append(first, h[0])
		of[h[0]] = h
	}
	var out [][]int
	for _, r := range p.ring(first) {
		out = append(out, of[r])
	}
	return out
}
