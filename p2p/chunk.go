package p2p

import "time"

// MaxChunk is the largest chunk, in bytes.
const MaxChunk = 16 << 20

// grain is what the borders of chunks are multiples of, so that codecs need not split an element or a block.
const grain = 64

// hysteresis is how far a measurement must be past a border before the chunk follows: between 1/1.25 and 1.25 of it nothing changes.
const hysteresis = 1.25

// ChunkPolicy chooses the size of chunks. The zero value has the defaults, which are sizes for three classes of links and a bound for far ones.
type ChunkPolicy struct {
	Fixed int // bytes; the size is not adapted

	Start   int           // bytes, before anything is measured and between the two borders, default 4 MiB
	Large   int           // bytes, above Fast, default 16 MiB
	Small   int           // bytes, below Slow, default 1 MiB
	Least   int           // bytes, the bound when Far halves, default 512 KiB
	Fast    float64       // bytes a second, default 10e9
	Slow    float64       // bytes a second, default 2e9
	Far     time.Duration // a latency above this halves the size, default 1 ms
	Samples int           // measurements that must agree before the size changes, default 3
}

// Initial is the size before anything is measured.
func (p ChunkPolicy) Initial() int {
	if p.Fixed > 0 {
		return min(p.Fixed, MaxChunk)
	}
	return orDefault(p.Start, 4<<20)
}

// Target is the size for a measured bandwidth in bytes a second and latency, if the present size is current. A measurement within 25 % of a border
// keeps what is there, so that a link on the border does not swing.
func (p ChunkPolicy) Target(current int, bandwidth float64, latency time.Duration) int {
	if p.Fixed > 0 {
		return p.Initial()
	}
	start, least := orDefault(p.Start, 4<<20), orDefault(p.Least, 512<<10)
	large, small := orDefault(p.Large, MaxChunk), orDefault(p.Small, 1<<20)
	base, halved := p.class(current)
	switch {
	case bandwidth <= 0:
		return current
	case above(bandwidth, orDefault(p.Fast, 10e9), base == large):
		base = large
	case above(bandwidth, orDefault(p.Slow, 2e9), base != small):
		base = start
	default:
		base = small
	}
	far := p.Far
	if far == 0 {
		far = time.Millisecond
	}
	if above(float64(latency), float64(far), halved) {
		base = min(max(base/2, least), base)
	}
	return min(base, MaxChunk)
}

// class is which of the three sizes current came from, and whether latency had halved it.
func (p ChunkPolicy) class(current int) (base int, halved bool) {
	for _, size := range []int{orDefault(p.Start, 4<<20), orDefault(p.Large, MaxChunk), orDefault(p.Small, 1<<20)} {
		if current == size {
			return size, false
		}
		if current == max(size/2, orDefault(p.Least, 512<<10)) {
			return size, true
		}
	}
	return orDefault(p.Start, 4<<20), false
}

// above says whether v is above a border. Who was above stays there until v is clearly below, who was not has to get clearly above.
func above(v, border float64, was bool) bool {
	if was {
		return v > border/hysteresis
	}
	return v > border*hysteresis
}

// sizer is the memory of a ChunkPolicy: what the size is, and which other one the last measurements asked for.
type sizer struct {
	policy ChunkPolicy
	size   int
	wanted int
	votes  int
}

func newSizer(p ChunkPolicy) sizer {
	return sizer{policy: p, size: p.Initial()}
}

// observe takes a measurement. The size changes when enough in a row ask for the same other one.
func (s *sizer) observe(bandwidth float64, latency time.Duration) {
	target := s.policy.Target(s.size, bandwidth, latency)
	if target != s.wanted {
		s.wanted, s.votes = target, 0
	}
	s.votes++
	if s.votes >= orDefault(s.policy.Samples, 3) {
		s.size = target
	}
}

// bytesOf is the length of the next chunk of a message of which left bytes are left.
func (s *sizer) bytesOf(left int) int {
	n := min(s.size, left)
	if n < left && n > grain {
		n -= n % grain
	}
	return n
}
