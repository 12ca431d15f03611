package rafttransport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
)

// Config describes the transport of one server.
type Config struct {
	Network link.Network
	Cluster string
	Self    string // this server's id, which is its raft.ServerAddress
	// Resolve says where a server listens now; asked at every dial.
	Resolve  func(id raft.ServerAddress) (addr string, err error)
	Timeout  time.Duration          // bound of a control request, default 2 s
	SameHost func(addr string) bool // payloads from there are not verified on arrival; nil = never
	Logger   *slog.Logger           // nil = discard
}

// Log is what the transport asks of a group's log.
type Log interface {
	Alloc(n int) (buf []byte, release func(), err error)
	Pin(entries []*raft.Log) (release func(), ok bool)
	Checksum(l *raft.Log) (uint32, bool)
}

// Mux carries the Raft messages of all groups of one server.
type Mux struct{}

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Mux, error) { return nil, errors.New("not yet") }

// Run owns the goroutines and connections until ctx ends.
func (m *Mux) Run(ctx context.Context) error { return errors.New("not yet") }

// Accept takes over a connection whose hello was accepted.
func (m *Mux) Accept(conn net.Conn, h link.Hello) {}

// Group makes the transport of one group.
func (m *Mux) Group(g uint32, log Log) *Transport { return nil }

// Transport is a raft.Transport with pre-vote and Close.
type Transport struct{ raft.Transport }

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return errors.New("not yet")
}

// Close implements raft.WithClose.
func (t *Transport) Close() error { return nil }
