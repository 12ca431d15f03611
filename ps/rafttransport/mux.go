package rafttransport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
)

// bulkFactor times Config.Timeout bounds an append.
const bulkFactor = 5

// ErrClosed is the error of what is asked of a closed Transport, or of a Mux that does not run.
var ErrClosed = errors.New("raft transport is closed")

// Config describes the transport of one server.
type Config struct {
	Network link.Network
	Cluster string
	Self    string // this server's id, which is its raft.ServerAddress
	// Resolve says where a server listens now; it is asked at every dial, from any goroutine.
	Resolve func(id raft.ServerAddress) (addr string, err error)
	// Timeout bounds a control request, default 2 s; appends have five times as much. Other values are for tests.
	Timeout time.Duration
	// SameHost says of a remote address that payloads from there need no verification on arrival; nil: none.
	SameHost func(addr string) bool
	Logger   *slog.Logger // nil = discard
}

// Log is what the transport asks of a group's log. ps/raftlog implements it. All methods are called concurrently.
type Log interface {
	// Alloc gives space for n > 0 bytes that payloads of an append in flight are read into: one, or small neighbours that each begin
	// at a multiple of 64. release is called once, when raft has answered or the bytes have not arrived.
	Alloc(n int) (buf []byte, release func(), err error)
	// Pin keeps the payloads of entries, which came from GetLog, where they are until release. ok is false when one of them is not in
	// the log any more.
	Pin(entries []*raft.Log) (release func(), ok bool)
	// Checksum is the CRC-32C of the entry's Data if the log knows it.
	Checksum(l *raft.Log) (uint32, bool)
}

// Mux carries the Raft messages of all groups of one server. All methods may be called concurrently.
type Mux struct {
	cfg     Config
	log     *slog.Logger
	running atomic.Bool
	tasks   chan func(ctx context.Context) // to Run
	done    chan struct{}                  // Run has ended

	mu     sync.Mutex // of the two maps; never held over I/O or a wait
	groups map[uint32]*Transport
	peers  map[raft.ServerAddress]*peer
}

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Mux, error) {
	var faults []error
	if cfg.Network == nil {
		faults = append(faults, errors.New("no Network"))
	}
	if cfg.Resolve == nil {
		faults = append(faults, errors.New("no Resolve"))
	}
	if cfg.Self == "" || len(cfg.Self) > 255 {
		faults = append(faults, fmt.Errorf("server id %q has %d bytes, not 1 to 255", cfg.Self, len(cfg.Self)))
	}
	if cfg.Timeout < 0 {
		faults = append(faults, fmt.Errorf("time-out %v", cfg.Timeout))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("configure raft transport: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.SameHost == nil {
		cfg.SameHost = func(string) bool { return false }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mux{
		cfg: cfg, log: cfg.Logger,
		tasks: make(chan func(context.Context)), done: make(chan struct{}),
		groups: map[uint32]*Transport{}, peers: map[raft.ServerAddress]*peer{},
	}, nil
}

// Run owns all goroutines and connections. It returns nil when ctx has ended, the connections are closed and raft has answered what
// it has taken. It may be called once.
func (m *Mux) Run(ctx context.Context) error {
	if m.running.Swap(true) {
		return errors.New("run raft transport: it was started before")
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer close(m.done)
	for {
		select {
		case <-ctx.Done():
			return nil
		case task := <-m.tasks:
			tasks.Go(func() { task(ctx) })
		}
	}
}

// start lets Run start a goroutine. It waits for Run to be running, at most Timeout.
func (m *Mux) start(task func(ctx context.Context)) error {
	timer := time.NewTimer(m.cfg.Timeout)
	defer timer.Stop()
	select {
	case m.tasks <- task:
		return nil
	case <-m.done:
		return ErrClosed
	case <-timer.C:
		return fmt.Errorf("%w: it does not run", ErrClosed)
	}
}

// Accept takes over a connection whose hello was accepted and says RaftControl, RaftBulk or RaftSnapshot; another one is closed.
func (m *Mux) Accept(conn net.Conn, h link.Hello) {
	var serve func(context.Context, *inbound) error
	switch h.Purpose {
	case link.RaftControl:
		serve = m.serveControl
	case link.RaftBulk:
		serve = m.serveBulk
	case link.RaftSnapshot:
		serve = m.serveSnapshot
	default:
		m.log.Warn("close connection that is not for raft", "from", h.From, "purpose", h.Purpose.String())
		_ = conn.Close()
		return
	}
	err := m.start(func(ctx context.Context) { m.serve(ctx, conn, h, serve) })
	if err != nil {
		m.log.Warn("close raft connection", "from", h.From, "err", err)
		_ = conn.Close()
	}
}

// Group makes the transport of one group, in the place of one made before. log must not be nil.
func (m *Mux) Group(g uint32, log Log) *Transport {
	t := &Transport{mux: m, group: g, log: log, rpcs: make(chan raft.RPC), done: make(chan struct{})}
	m.mu.Lock()
	m.groups[g] = t
	m.mu.Unlock()
	return t
}

// group finds the transport of a group, nil if there is none.
func (m *Mux) group(g uint32) *Transport {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups[g]
}

func (m *Mux) forget(t *Transport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups[t.group] == t {
		delete(m.groups, t.group)
	}
}

func (m *Mux) peer(id raft.ServerAddress) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[id]
	if p == nil {
		p = &peer{}
		p.control = lane{mux: m, id: id, purpose: link.RaftControl, other: &p.bulk}
		p.bulk = lane{mux: m, id: id, purpose: link.RaftBulk}
		m.peers[id] = p
	}
	return p
}

// dial makes a connection to a server, verified by hello.
func (m *Mux) dial(ctx context.Context, id raft.ServerAddress, purpose link.Purpose) (net.Conn, error) {
	addr, err := m.cfg.Resolve(id)
	if err != nil {
		return nil, fmt.Errorf("find server %s: %w", id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	conn, err := m.cfg.Network.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to server %s: %w", id, err)
	}
	h, err := link.SendHello(ctx, conn, link.Hello{Cluster: m.cfg.Cluster, From: m.cfg.Self, To: string(id), Purpose: purpose})
	if err == nil && h.From != string(id) {
		err = fmt.Errorf("%w: server %q answers at %s", link.ErrWrongRecipient, h.From, addr)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to server %s at %s: %w", id, addr, err), conn.Close())
	}
	return conn, nil
}
