package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hcclps/p2p"
)

// Calibration is what the links between the ranks of a Comm were measured to be. All ranks have the same.
type Calibration struct {
	Ranks     int
	Latency   [][]time.Duration // of a small message one way, by the two ranks, in either order; 0 of a rank and itself
	Bandwidth [][]float64       // bytes a second in each direction, of two ranks that exchange while other pairs do too
	Alone     [][]float64       // the same while no others do; nil where a rank has no others
	Post      time.Duration     // of each further message that a rank sends at the same time
	Ports     int               // to how many peers at once a rank sends at the bandwidth of one
	Reduce    float64           // bytes a second that a rank folds into others
}

// The messages of a calibration.
const (
	tinyMessage   = frameSize
	bulkMessage   = 256 << 10
	bulkCount     = 8
	tinyRounds    = 15
	bulkRounds    = 3
	further       = 2
	reduceMessage = 1 << 20
)

// Calibrate measures the links of a Comm that nobody uses. All ranks call it at the same time. It takes some milliseconds a rank, more where the links are
// slow; ctx bounds it, and if it fails the Comm is of no use any more.
func Calibrate(ctx context.Context, comm p2p.Comm) (*Calibration, error) {
	m := &meter{ctx: ctx, comm: comm, p: comm.Size(), me: comm.Rank(), out: make([]byte, bulkMessage)}
	m.in = make([][]byte, m.p)
	c := newCalibration(m.p)
	c.Reduce = foldRate()
	if m.p == 1 {
		return c, nil
	}
	if err := m.measure(c); err != nil {
		return nil, fmt.Errorf("measure links at rank %d of %d: %w", m.me, m.p, err)
	}
	if err := m.share(c); err != nil {
		return nil, fmt.Errorf("agree on links at rank %d of %d: %w", m.me, m.p, err)
	}
	return c, nil
}

func newCalibration(p int) *Calibration {
	c := &Calibration{Ranks: p, Latency: make([][]time.Duration, p), Bandwidth: make([][]float64, p), Alone: make([][]float64, p), Ports: 1}
	for i := range p {
		c.Latency[i], c.Bandwidth[i], c.Alone[i] = make([]time.Duration, p), make([]float64, p), make([]float64, p)
	}
	return c
}

// Links are the constants for a Config: between ranks of one host and between hosts, by the numbers of Config.Hosts, of which nil is one host. A slow
// pair holds a collective up, so it is the slower quarter of pairs that counts.
func (c *Calibration) Links(hosts []int) (inside, across Link) {
	link := func(same bool) Link {
		var alpha []time.Duration
		var rate, alone []float64
		for a := range c.Ranks {
			for b := a + 1; b < c.Ranks; b++ {
				if (hosts == nil || hosts[a] == hosts[b]) == same {
					alpha, rate, alone = append(alpha, c.Latency[a][b]), append(rate, c.Bandwidth[a][b]), append(alone, c.Alone[a][b])
				}
			}
		}
		if len(alpha) == 0 {
			return Link{}
		}
		slices.Sort(alpha)
		slices.Sort(rate)
		slices.Sort(alone)
		l := Link{Alpha: alpha[len(alpha)*3/4], Post: c.Post, Bandwidth: rate[len(rate)/4], Reduce: c.Reduce, Ports: c.Ports}
		if !same { // a host's way out carries all that its ranks send
			l.Bandwidth, l.Ports = alone[len(alone)/4], 1
		}
		return l
	}
	inside, across = link(true), link(false)
	if inside == (Link{}) {
		inside = across
	}
	return inside, across
}

// meter measures as one rank.
type meter struct {
	ctx  context.Context //nolint:containedctx // of one calibration
	comm p2p.Comm
	p    int
	me   int
	out  []byte
	in   [][]byte // by peer
	late []*p2p.Request
}

func (m *meter) buffer(peer int) []byte {
	if m.in[peer] == nil {
		m.in[peer] = make([]byte, bulkMessage)
	}
	return m.in[peer]
}

// exchange sends so many messages of n bytes to each of some peers, and takes as many from them.
func (m *meter) exchange(n, count int, peers ...int) error {
	var reqs []*p2p.Request
	for range count {
		for _, peer := range peers {
			reqs = append(reqs, m.comm.Irecv(peer, p2p.Bytes(m.buffer(peer)[:n])), m.comm.Isend(peer, p2p.Bytes(m.out[:n])))
		}
	}
	return m.wait(reqs)
}

func (m *meter) wait(reqs []*p2p.Request) error {
	var errs []error
	for _, r := range reqs {
		errs = append(errs, r.Wait(m.ctx))
	}
	return errors.Join(errs...)
}

// meet returns when all ranks are here, or nearly so.
func (m *meter) meet() error {
	for bit := 1; bit < m.p; bit *= 2 {
		to, from := (m.me+bit)%m.p, (m.me-bit+m.p)%m.p
		in := m.comm.Irecv(from, p2p.Bytes(m.buffer(from)[:1]))
		if err := errors.Join(m.comm.Isend(to, p2p.Bytes(m.out[:1])).Wait(m.ctx), in.Wait(m.ctx)); err != nil {
			return err
		}
	}
	return nil
}

// median is that of the times of f.
func (m *meter) median(rounds int, f func() error) (time.Duration, error) {
	var all []time.Duration
	for range rounds {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// measure fills in what this rank sees: its own rows.
func (m *meter) measure(c *Calibration) error {
	if err := m.pairs(c.Latency[m.me], c.Bandwidth[m.me], true); err != nil {
		return err
	}
	if err := m.pairs(nil, c.Alone[m.me], false); err != nil {
		return err
	}
	return m.bursts(c)
}

// pairs measures this rank with every other: in each round all ranks have a partner, as in a tournament where everybody plays everybody, and either all
// pairs are at it at once or one after the other.
func (m *meter) pairs(latency []time.Duration, rate []float64, together bool) error {
	for round := range rounds(m.p) {
		for turn := range m.p {
			partner := opponent(m.me, round, m.p)
			mine := partner >= 0 && (together || turn == min(m.me, partner))
			if together && turn > 0 {
				break
			}
			if err := m.meet(); err != nil {
				return err
			}
			if mine {
				if err := m.pair(partner, latency, rate); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pair measures this rank with one other: half a ping-pong, and an exchange of some large messages against one of one.
func (m *meter) pair(peer int, latency []time.Duration, rate []float64) error {
	if latency != nil {
		round, err := m.median(tinyRounds, func() error { return m.pingPong(peer) })
		if err != nil {
			return err
		}
		latency[peer] = round / 2
		if err := m.wait(m.late); err != nil {
			return err
		}
		m.late = m.late[:0]
	}
	one, err := m.median(bulkRounds, func() error { return m.exchange(bulkMessage, 1, peer) })
	if err != nil {
		return err
	}
	many, err := m.median(bulkRounds, func() error { return m.exchange(bulkMessage, 1+bulkCount, peer) })
	if err != nil {
		return err
	}
	rate[peer] = float64(bulkMessage*bulkCount) / max(many-one, time.Nanosecond).Seconds()
	return nil
}

func (m *meter) pingPong(peer int) error {
	recv := m.comm.Irecv(peer, p2p.Bytes(m.buffer(peer)[:tinyMessage]))
	if m.me > peer { // the other one begins
		if err := recv.Wait(m.ctx); err != nil {
			return err
		}
	}
	send := m.comm.Isend(peer, p2p.Bytes(m.out[:tinyMessage]))
	if err := recv.Wait(m.ctx); err != nil {
		return err
	}
	m.late = append(m.late, send) // when it is known to have arrived does not matter here
	return nil
}

// bursts measures what it costs to reach all others at once over what it costs to reach one.
func (m *meter) bursts(c *Calibration) error {
	if m.p == 2 {
		return m.again(c)
	}
	few := min(2, m.p-2) // peers; one is like no other on some transports, since meet has just reached it
	more := float64(m.p - 1 - few)
	var extra [2]float64 // seconds that more cost, with small messages and with large ones
	for i, n := range []int{tinyMessage, bulkMessage} {
		one, err := m.burst(n, few)
		if err != nil {
			return err
		}
		all, err := m.burst(n, m.p-1)
		if err != nil {
			return err
		}
		extra[i] = max(0, all-one)
	}
	c.Post = time.Duration(extra[0] / more * float64(time.Second))
	var rate float64 // of this rank's pairs on average
	for peer := range m.p {
		rate += c.Bandwidth[m.me][peer] / float64(m.p-1)
	}
	// Those that find no port free take as long as their bytes.
	waiting := max(0, extra[1]-extra[0]) * rate / bulkMessage / more // of each
	c.Ports = int(max(math.Round(1/max(waiting, 1/float64(m.p-1))), 1))
	return nil
}

// again measures what a further message to the only other rank costs.
func (m *meter) again(c *Calibration) error {
	peer := 1 - m.me
	one, err := m.median(tinyRounds, func() error { return m.exchange(tinyMessage, 1, peer) })
	if err != nil {
		return err
	}
	many, err := m.median(tinyRounds, func() error { return m.exchange(tinyMessage, 1+further, peer) })
	if err == nil {
		c.Post = max(0, many-one) / further
	}
	return err
}

// burst is the seconds in which all ranks send n bytes to each of the next ones at once.
func (m *meter) burst(n, peers int) (float64, error) {
	var all []time.Duration
	for range tinyRounds {
		if err := m.meet(); err != nil {
			return 0, err
		}
		start := time.Now()
		var reqs []*p2p.Request
		for d := 1; d <= peers; d++ {
			to, from := (m.me+d)%m.p, (m.me-d+m.p)%m.p
			reqs = append(reqs, m.comm.Irecv(from, p2p.Bytes(m.buffer(from)[:n])), m.comm.Isend(to, p2p.Bytes(m.out[:n])))
		}
		if err := m.wait(reqs); err != nil {
			return 0, err
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all[len(all)/2].Seconds(), nil
}

// rounds is how many a tournament of p has, and opponent whom a rank meets in one of them: the circle method, -1 for nobody.
func rounds(p int) int { return p + p%2 - 1 }

func opponent(rank, round, p int) int {
	n := rounds(p) // positions 0 to n-1 turn, position n stays
	other := (2*round - rank + 2*n) % n
	switch {
	case rank == n:
		other = round % n
	case other == rank:
		other = n
	}
	if other >= p {
		return -1
	}
	return other
}

// foldRate is how many bytes of float32 sums this machine does a second, in cache.
func foldRate() float64 {
	r := newReducer(p2p.Float32, Sum)
	a, b := make([]byte, reduceMessage), make([]byte, reduceMessage)
	best := time.Duration(math.MaxInt64)
	for range 3 {
		start := time.Now()
		r.into(a, b)
		best = min(best, time.Since(start))
	}
	return reduceMessage / max(best, time.Nanosecond).Seconds()
}

// share makes everybody's rows known to all, and one number of each kind of those of all ranks: of the slowest.
func (m *meter) share(c *Calibration) error {
	row := func(r int) []byte {
		var b []byte
		for peer := range m.p {
			b = binary.LittleEndian.AppendUint64(b, uint64(c.Latency[r][peer]))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.Bandwidth[r][peer]))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.Alone[r][peer]))
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(c.Post))
		b = binary.LittleEndian.AppendUint64(b, uint64(c.Ports))
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(c.Reduce))
	}
	mine := row(m.me)
	all := make([][]byte, m.p)
	var reqs []*p2p.Request
	for d := 1; d < m.p; d++ {
		to, from := (m.me+d)%m.p, (m.me-d+m.p)%m.p
		all[from] = make([]byte, len(mine))
		reqs = append(reqs, m.comm.Irecv(from, p2p.Bytes(all[from])), m.comm.Isend(to, p2p.Bytes(mine)))
	}
	all[m.me] = mine
	if err := m.wait(reqs); err != nil {
		return err
	}
	c.take(all)
	return nil
}

// take reads the rows of all ranks. Where two have measured the same it is the slower that counts.
func (c *Calibration) take(rows [][]byte) {
	word := func(r, i int) uint64 { return binary.LittleEndian.Uint64(rows[r][8*i:]) }
	number := func(r, i int) float64 { return math.Float64frombits(word(r, i)) }
	var post []time.Duration
	var ports []int
	var reduce []float64
	for a := range c.Ranks {
		for b := range c.Ranks {
			c.Latency[a][b] = time.Duration(max(word(a, 3*b), word(b, 3*a)))
			c.Bandwidth[a][b] = min(number(a, 3*b+1), number(b, 3*a+1))
			c.Alone[a][b] = min(number(a, 3*b+2), number(b, 3*a+2))
		}
		end := 3 * c.Ranks
		post, ports = append(post, time.Duration(word(a, end))), append(ports, int(word(a, end+1)))
		reduce = append(reduce, number(a, end+2))
	}
	slices.Sort(post)
	slices.Sort(ports)
	slices.Sort(reduce)
	middle := c.Ranks / 2
	c.Post, c.Ports, c.Reduce = post[middle], ports[middle], reduce[0]
}
