package collective

import (
	"math"
	"math/bits"
	"time"
)

// Link is what messages cost between two ranks: the constants of the alpha-beta-gamma model.
type Link struct {
	// Alpha is the time of a message without bytes.
	Alpha time.Duration
	// Post is the part of Alpha that a rank is busy, which every further message that it sends at the same time takes again: to another peer, a
	// further piece, or one that does not fit beside the fingerprint before it.
	Post time.Duration
	// Bandwidth is in bytes per second; beta is its inverse.
	Bandwidth float64
	// Reduce is how many bytes per second a rank folds into others; gamma is its inverse.
	Reduce float64
	// Ports is to how many peers a rank can send at the full bandwidth at once. Where it is 1, as on one host or behind one network
	// card, a mesh takes as long as its bytes need.
	Ports int
}

// The constants of transports, for ranks that have a core each. They are where the choice begins when nobody has measured.
func defaultLink(transport string) Link {
	switch transport {
	case "hccl":
		return Link{Alpha: 20 * time.Microsecond, Post: time.Microsecond, Bandwidth: 20e9, Reduce: 100e9, Ports: math.MaxInt32}
	case "tcp":
		return Link{Alpha: 25 * time.Microsecond, Post: 8 * time.Microsecond, Bandwidth: 1.2e9, Reduce: 10e9, Ports: 1}
	default: // shm, inproc
		return Link{Alpha: 2 * time.Microsecond, Post: time.Microsecond, Bandwidth: 6e9, Reduce: 10e9, Ports: 1}
	}
}

// step is the seconds of one message of n bytes, of which reduced are folded.
func (l Link) step(n, reduced float64) float64 {
	return l.Alpha.Seconds() + n/l.Bandwidth + reduced/l.Reduce
}

// cut is the seconds that sending n bytes in pieces takes more than sending them at once.
func (l Link) cut(n float64) float64 {
	return float64(pieces(int(n), DefaultPiece)-1) * l.Post.Seconds()
}

// greet is the seconds that the fingerprints take that go before the first message to each of some peers, unless they have it in them.
func (l Link) greet(n float64, peers int) float64 {
	if n <= inlineMax {
		return 0
	}
	return float64(peers) * l.Post.Seconds()
}

// burst is the seconds in which a rank sends n bytes to each of count peers at once.
func (l Link) burst(n float64, count int) float64 {
	ports := min(max(l.Ports, 1), count)
	return l.Alpha.Seconds() + float64(count-1)*l.Post.Seconds() + n*float64(count)/float64(ports)/l.Bandwidth
}

// work is an operation as the model sees it: n is the bytes that end at a rank of AllGather, that begin at a rank of the others.
type work struct {
	op      Op
	n       int
	ranks   int
	ordered bool
}

// cost is the predicted seconds of an operation between the ranks of one level; infinite for an algorithm that it does not have.
// The formulas are those of HCCL's documentation (coll_algo_intro), with Post and Ports limiting what a mesh does at once.
func cost(l Link, w work, a Algorithm) float64 {
	if w.ranks == 1 {
		return 0
	}
	n := float64(w.n)
	if a == SHM {
		return costShared(l, w)
	}
	switch w.op {
	case AllReduce:
		return costAllReduce(l, w, a)
	case ReduceScatter:
		return costReduceScatter(l, w, a)
	case AllGather:
		return costAllGather(l, w, a) + l.greet(n/float64(w.ranks), contacts(a, w.ranks))
	case Broadcast:
		return costBroadcast(l, w, a)
	case Reduce:
		if a == Tree {
			return costTreeReduce(l, w)
		}
		return costReduceScatter(l, w, a) + costRooted(l, n, w.ranks)
	case Scatter, Gather:
		return costRooted(l, n, w.ranks)
	case AlltoAll, AlltoAllV:
		part := n / float64(w.ranks)
		if a == Mesh {
			return l.burst(part, w.ranks-1) + l.greet(part, w.ranks-1)
		}
		return float64(w.ranks-1)*l.step(part, 0) + l.greet(part, w.ranks-1)
	case Barrier:
		return log2(w.ranks) * l.Alpha.Seconds()
	default:
		return math.Inf(1)
	}
}

// costRooted is a root that has a part for, or takes one from, every other: all n bytes but its own cross its end.
func costRooted(l Link, n float64, ranks int) float64 {
	return l.burst(n/float64(ranks), ranks-1) + l.greet(n/float64(ranks), ranks-1)
}

func costAllReduce(l Link, w work, a Algorithm) float64 {
	n := float64(w.n)
	switch {
	case a == Tree:
		return costTreeReduce(l, w) + costBroadcast(l, w, Tree)
	case a == Mesh && small(w.n, w.ranks):
		others := float64(w.ranks - 1)
		last := min(n, DefaultPiece)
		return l.burst(n, w.ranks-1) + others*l.cut(n) + l.greet(n, w.ranks-1) + others*(last/l.Reduce+max(0, (n-last)*(1/l.Reduce-1/l.Bandwidth)))
	case a == HalvingDoubling && !w.ordered:
		q := power(w.ranks)
		share := (q - 1) / q * n
		seconds := 2*math.Log2(q)*l.Alpha.Seconds() + 2*share/l.Bandwidth + share/l.Reduce + 2*l.halved(n, q) + l.greet(n/2, int(math.Log2(q)))
		if int(q) != w.ranks {
			seconds += l.step(n, n) + l.step(n, 0)
		}
		return seconds
	default:
		return costReduceScatter(l, w, a) + costAllGather(l, w, a)
	}
}

func costReduceScatter(l Link, w work, a Algorithm) float64 {
	n, p := float64(w.n), float64(w.ranks)
	share := (p - 1) / p * n
	switch {
	case a == Mesh || w.ordered:
		return l.burst(n/p, w.ranks-1) + (p-1)*l.cut(n/p) + share/l.Reduce + l.greet(n/p, w.ranks-1)
	case a == HalvingDoubling:
		q := power(w.ranks)
		half := (q - 1) / q * n
		seconds := math.Log2(q)*l.Alpha.Seconds() + half/l.Bandwidth + half/l.Reduce + l.halved(n, q) + l.greet(n/2, int(math.Log2(q)))
		if int(q) != w.ranks {
			seconds += l.step(n, n) + l.step(n/p, 0)
		}
		return seconds
	case a == Bruck:
		return log2(w.ranks)*l.Alpha.Seconds() + share/l.Bandwidth + share/l.Reduce + l.halved(n, power(w.ranks)) + l.greet(n/2, int(log2(w.ranks)))
	case a == NHR:
		return costReduceScatter(l, w, Bruck) + l.scattered(w.ranks)
	case a == Ring:
		return (p-1)*(l.step(n/p, n/p)+l.cut(n/p)) + l.greet(n/p, 1)
	default:
		return math.Inf(1)
	}
}

func costAllGather(l Link, w work, a Algorithm) float64 {
	n, p := float64(w.n), float64(w.ranks)
	switch a {
	case Mesh:
		return l.burst(n/p, w.ranks-1)
	case HalvingDoubling:
		q := power(w.ranks)
		seconds := math.Log2(q)*l.Alpha.Seconds() + (q-1)/q*n/l.Bandwidth + l.halved(n, q)
		if int(q) != w.ranks {
			seconds += l.step(n/p, 0) + l.step(n, 0)
		}
		return seconds
	case Bruck:
		return log2(w.ranks)*l.Alpha.Seconds() + (p-1)/p*n/l.Bandwidth + l.halved(n, power(w.ranks))
	case NHR:
		return costAllGather(l, w, Bruck) + l.scattered(w.ranks)
	case Ring:
		return (p - 1) * (l.step(n/p, 0) + l.cut(n/p))
	default:
		return math.Inf(1)
	}
}

func costBroadcast(l Link, w work, a Algorithm) float64 {
	n := float64(w.n)
	switch a {
	case Tree, HalvingDoubling:
		return log2(w.ranks) * (l.step(n, 0) + l.greet(n, 1))
	case Mesh:
		part := n / float64(w.ranks)
		return 2 * (l.burst(part, w.ranks-1) + l.greet(part, w.ranks-1))
	case Ring: // pieces follow each other
		k, hops := float64(pieces(w.n, DefaultPiece)), float64(w.ranks-1)
		return hops*(l.Alpha.Seconds()+l.greet(n, 1)) + (hops-1+k)*n/k/l.Bandwidth + l.cut(n)
	default:
		return math.Inf(1)
	}
}

func costTreeReduce(l Link, w work) float64 {
	n, p := float64(w.n), w.ranks
	if w.ordered {
		return l.Alpha.Seconds() + float64(p-1)*n*(1/l.Bandwidth+1/l.Reduce) + l.greet(n, 1)
	}
	return log2(p) * (l.step(n, n) + l.greet(n, 1))
}

// halved is the seconds that the pieces of halves, quarters and so on take more than whole ones, down to 1/q.
func (l Link) halved(n, q float64) (seconds float64) {
	for part := n / 2; part >= n/q && part >= DefaultPiece; part /= 2 {
		seconds += l.cut(part)
	}
	return seconds
}

// scattered is the seconds that a message for each part takes more than one for each step.
func (l Link) scattered(ranks int) float64 {
	return (float64(ranks-1) - log2(ranks)) * l.Post.Seconds()
}

// contacts is to how many peers a rank sends in an AllGather.
func contacts(a Algorithm, ranks int) int {
	switch a {
	case Mesh:
		return ranks - 1
	case HalvingDoubling, Bruck, NHR:
		return int(log2(ranks))
	default:
		return 1
	}
}

// costShared is what ranks take that share memory, each of which can copy and fold as fast as it reduces.
func costShared(l Link, w work) float64 {
	passes := 2.0 // into the memory and out of it
	if w.op == AllReduce || w.op == Reduce {
		passes = 3
	}
	return l.Alpha.Seconds() + passes*float64(w.n)/l.Reduce
}

// log2 is rounded up.
func log2(p int) float64 { return float64(bits.Len(uint(p - 1))) }

// power is the largest power of two in p.
func power(p int) float64 { return float64(int(1) << (bits.Len(uint(p)) - 1)) }
