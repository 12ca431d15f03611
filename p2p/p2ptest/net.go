package p2ptest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"hcclps/p2p/inproc"
)

// Net is a network in this process between named hosts, whose links fail when told to. A cut link is silent, as a
// cable that is pulled: bytes wait, and arrive after Heal; connections being made wait too. A broken connection ends: both
// sides see that the other has closed. All methods may be called concurrently.
//
// Dial starts goroutines, which Close waits for.
type Net struct {
	inner *inproc.Network
	seed  uint64
	wg    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	owner   map[string]string   // address to the host that listens at it
	cuts    map[link]bool       // links that are silent
	dialled map[link]uint64     // connections so far
	changed chan struct{}       // closed and made anew when cuts changes
	delay   time.Duration       // most that a piece of bytes waits
	chance  float64             // of breaking a connection, for each piece
	relays  map[*relay]struct{} // connections that live
}

// link is one direction between two hosts.
type link struct{ from, to string }

// NewNet makes a network without faults. Delays and breaks are drawn by seed, for each connection between two hosts
// in the order in which they were made.
func NewNet(seed uint64) *Net {
	return &Net{
		inner:   inproc.NewNetwork(),
		seed:    seed,
		owner:   make(map[string]string),
		cuts:    make(map[link]bool),
		dialled: make(map[link]uint64),
		changed: make(chan struct{}),
		relays:  make(map[*relay]struct{}),
	}
}

// Host returns the view of the host called name. What it listens at and dials meets the faults of that name.
func (n *Net) Host(name string) *Host { return &Host{net: n, name: name} }

// Cut silences the link from one host to another, in that direction, until Heal.
func (n *Net) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[link{from, to}] = true
	n.notify()
}

// Partition heals everything, then silences both directions between every two hosts that are in different groups. A host
// in no group reaches all.
func (n *Net) Partition(groups ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	for i, group := range groups {
		for _, other := range groups[i+1:] {
			for _, a := range group {
				for _, b := range other {
					n.cuts[link{a, b}] = true
					n.cuts[link{b, a}] = true
				}
			}
		}
	}
	n.notify()
}

// Heal ends all cuts. What waited arrives.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	n.notify()
}

// Delay makes every piece of bytes, and every Dial, wait up to limit from now on. Bytes keep their order.
func (n *Net) Delay(limit time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = limit
}

// Break makes every piece of bytes end its connection with this chance, 0 to 1, from now on.
func (n *Net) Break(chance float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.chance = chance
}

// Kill breaks all connections of a host, cut ones included. It may make new ones.
func (n *Net) Kill(host string) {
	n.end(func(r *relay) bool { return r.there.from == host || r.there.to == host })
}

// Close breaks all connections and waits for the network's goroutines. Nothing can be dialled after.
func (n *Net) Close() error {
	n.mu.Lock()
	n.closed = true
	n.notify()
	n.mu.Unlock()
	n.end(func(*relay) bool { return true })
	n.wg.Wait()
	return nil
}

func (n *Net) end(match func(*relay) bool) {
	n.mu.Lock()
	var ending []*relay
	for r := range n.relays {
		if match(r) {
			ending = append(ending, r)
		}
	}
	n.mu.Unlock()
	for _, r := range ending {
		r.end()
	}
}

// notify wakes what waits for a change of cuts; n.mu is held.
func (n *Net) notify() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// open waits until none of the links is cut, or ctx ends, or stop is closed.
func (n *Net) open(ctx context.Context, stop <-chan struct{}, links ...link) error {
	for {
		n.mu.Lock()
		cut := false
		for _, l := range links {
			cut = cut || n.cuts[l]
		}
		closed, changed := n.closed, n.changed
		n.mu.Unlock()
		switch {
		case closed:
			return net.ErrClosed
		case !cut:
			return nil
		}
		select {
		case <-changed:
		case <-stop:
			return net.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wait lets a part of the delay pass that rng draws.
func (n *Net) wait(ctx context.Context, stop <-chan struct{}, rng *rand.Rand) error {
	n.mu.Lock()
	limit := n.delay
	n.mu.Unlock()
	if limit <= 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(rng.Int64N(int64(limit) + 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stop:
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// breaks draws whether the next piece ends its connection.
func (n *Net) breaks(rng *rand.Rand) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chance > 0 && rng.Float64() < n.chance
}

// Host is one host's view of a Net. Its methods may be called concurrently.
type Host struct {
	net  *Net
	name string
}

// Listen opens addr, any string; one that ends in ":0" gets a free number.
func (h *Host) Listen(ctx context.Context, addr string) (net.Listener, error) {
	h.net.mu.Lock() // before anybody can dial it
	defer h.net.mu.Unlock()
	l, err := h.net.inner.Host(h.name).Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	h.net.owner[l.Addr().String()] = h.name
	return l, nil
}

// Dial connects to addr. While the link to or from its host is cut it waits for ctx to end.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	owner, known := n.owner[addr]
	there := link{h.name, owner}
	number := n.dialled[there]
	n.dialled[there]++
	n.mu.Unlock()
	if !known { // nor may it be dialled when it is known a moment later, over a link without a name
		return nil, &net.OpError{Op: "dial", Net: "inproc", Source: inproc.Addr(h.name), Addr: inproc.Addr(addr), Err: syscall.ECONNREFUSED}
	}
	back := link{there.to, there.from}
	err := n.wait(ctx, nil, n.rng(there, number, "dial"))
	if err == nil {
		err = n.open(ctx, nil, there, back)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s from %s: %w", addr, h.name, err)
	}
	far, err := n.inner.Host(h.name).Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	mine, near := inproc.Pipe(0)
	r := &relay{net: n, there: there, near: near, far: far, done: make(chan struct{})}
	life := context.WithoutCancel(ctx) // the connection outlives this call
	started := n.start(r,
		func() { r.forward(life, there, near, far, n.rng(there, number, "there")) },
		func() { r.forward(life, back, far, near, n.rng(there, number, "back")) })
	if !started {
		r.end()
		return nil, fmt.Errorf("dial %s from %s: %w", addr, h.name, net.ErrClosed)
	}
	return &conn{mine, inproc.Addr(h.name), inproc.Addr(addr)}, nil
}

// start counts the relay in and starts its goroutines, unless the network is closed.
func (n *Net) start(r *relay, there, back func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.relays[r] = struct{}{}
	n.wg.Go(there)
	n.wg.Go(back)
	return true
}

// rng makes the source of chance for one use of one connection.
func (n *Net) rng(l link, number uint64, use string) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%d\x00%s", l.from, l.to, number, use) // a hash does not fail
	return rand.New(rand.NewPCG(n.seed, h.Sum64()))
}

// conn is the dialler's end, with the addresses of the real one.
type conn struct {
	net.Conn
	local, remote net.Addr
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }
