package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p"
)

// Config describes a Client. Network, Pair, Cluster and ID are needed, all else has a good default.
type Config struct {
	Network   Network
	Pair      PairFunc
	Upgrade   UpgradeFunc // nil = what Pair makes is good enough
	Cluster   string
	ID        string          // who we are: a worker's name or a server's id
	Info      string          // free text for people
	Heartbeat time.Duration   // default 500 ms
	Suspect   time.Duration   // default 2 s: nothing heard for so long, and the peer is taken for dead
	Logger    *slog.Logger    // nil = discard
	Trace     *trace.Recorder // gets the transfers of large bodies; nil = nobody
	Limits
}

// Call is one request.
type Call struct {
	To       string   // id of the server meant, "" for whoever answers at the address
	Head     []byte   // at most MaxHead bytes
	Body     [][]byte // its pieces, sent in this order as one body; not written to until Call returns
	Priority Priority
	// Source makes the body in place of Body, chunk by chunk while it is sent. Its error ends the call.
	Source p2p.Source
	// Sink takes the reply's body of n bytes, chunk by chunk while it arrives; Reply.Body is nil then. It may have had
	// a part when the call fails. The function runs on the goroutine of Call.
	Sink func(n int) (p2p.Sink, error)
	// Alloc provides the memory of the reply's body, of exactly n bytes; nil = make. It runs on the goroutine of Call.
	Alloc func(n int) ([]byte, error)
}

// Reply is the answer to a Call. Its memory belongs to the caller.
type Reply struct {
	From string // id of the server
	Head []byte
	Body []byte
}

// Client makes calls to any number of servers over pooled connections: a control connection and, from the first large body on, a
// bulk connection per address. An address keeps its connection until it fails or the Client stops.
type Client struct {
	cfg     Config
	opt     options
	wake    chan struct{} // one token: fresh has changed
	stopped chan struct{} // closed when Run's context has ended

	mu      sync.Mutex
	past    p2p.Stats // of connections that are over
	peers   map[string]*peer
	fresh   []*peer // not yet running
	started bool
}

// NewClient checks the configuration. It starts nothing.
func NewClient(cfg Config) (*Client, error) {
	opt := options{pair: cfg.Pair, upgrade: cfg.Upgrade, heartbeat: cfg.Heartbeat, suspect: cfg.Suspect, Limits: cfg.Limits, logger: cfg.Logger, trace: cfg.Trace}
	err := opt.setDefaults()
	if cfg.Network == nil {
		err = errors.Join(err, errors.New("network is nil"))
	}
	if cfg.ID == "" || len(cfg.ID) > maxName || len(cfg.Cluster) > maxName {
		err = errors.Join(err, fmt.Errorf("id %.40q and cluster %.40q: an id is needed, of at most %d bytes each", cfg.ID, cfg.Cluster, maxName))
	}
	if err != nil {
		return nil, fmt.Errorf("configure link client: %w", err)
	}
	return &Client{
		cfg: cfg, opt: opt, peers: make(map[string]*peer),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}, nil
}

// Run owns all goroutines and connections of the client. It returns when ctx has ended and everything is closed; nil.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	again := c.started
	c.started = true
	c.mu.Unlock()
	if again {
		return errors.New("run link client: it ran already")
	}
	var peers sync.WaitGroup
	for ctx.Err() == nil {
		c.mu.Lock()
		fresh := c.fresh
		c.fresh = nil
		c.mu.Unlock()
		for _, p := range fresh {
			peers.Go(func() { p.run(ctx) })
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
		}
	}
	close(c.stopped)
	peers.Wait()
	return nil
}

// Call sends one request to addr and waits for its reply. It waits for Run to be running. May be called concurrently. Its errors are *Error and
// wrap the causes of this package, or that of ctx. When it returns, the memory of call is free again; after an error the server may have
// acted on the call unless the error is ErrUnreachable.
func (c *Client) Call(ctx context.Context, addr string, call Call) (Reply, error) {
	switch {
	case len(call.Head) > MaxHead:
		return Reply{}, &Error{Op: "call", Addr: addr, Err: fmt.Errorf("%w: head of %d bytes, at most %d", ErrTooLarge, len(call.Head), MaxHead)}
	case call.Priority > Background:
		return Reply{}, &Error{Op: "call", Addr: addr, Err: fmt.Errorf("no such priority: %d", call.Priority)}
	}
	s, err := c.peer(addr).session(ctx)
	if err != nil {
		return Reply{}, &Error{Op: "connect to", Addr: addr, Err: err}
	}
	if call.To != "" && call.To != s.peer.From {
		err := fmt.Errorf("%w: %q was meant, %q answers", ErrWrongRecipient, call.To, s.peer.From)
		return Reply{}, &Error{Op: "call", Addr: addr, Peer: s.peer.From, Err: err}
	}
	r, err := s.call(ctx, call)
	if err != nil {
		return Reply{}, &Error{Op: "call", Addr: addr, Peer: s.peer.From, Err: err}
	}
	return r, nil
}

// Stats sums up what all connections moved in large bodies.
func (c *Client) Stats() p2p.Stats {
	c.mu.Lock()
	sum := c.past
	var live []*peer
	for _, p := range c.peers {
		live = append(live, p)
	}
	c.mu.Unlock()
	for _, p := range live {
		p.mu.Lock()
		if p.live != nil {
			sum = sum.Plus(p.live.moves.Stats())
		}
		p.mu.Unlock()
	}
	return sum
}

func (c *Client) remember(s p2p.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.past = c.past.Plus(s)
}

// peer returns what is known of addr.
func (c *Client) peer(addr string) *peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[addr]
	if p == nil {
		p = newPeer(c, addr)
		c.peers[addr] = p
		c.fresh = append(c.fresh, p)
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return p
}

func (c *Client) hasStopped() bool {
	select {
	case <-c.stopped:
		return true
	default:
		return false
	}
}
