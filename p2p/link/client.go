package link

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Config describes a Client. The zero value of every field but Network, Pair, Cluster and ID is a good default.
type Config struct {
	Network   Network
	Pair      PairFunc
	Cluster   string
	ID        string        // who we are: a worker's name or a server's id
	Info      string        // free text for people
	Heartbeat time.Duration // default 500 ms
	Suspect   time.Duration // default 2 s: nothing heard for so long, and the peer is taken for dead
	Dial      time.Duration // default 1 s: bound of one attempt to connect
	Window    int           // chunks granted and not yet received, default 4
	Chunk     int           // bytes of a chunk of a body on the bulk Comm, default 1 MiB
	MaxBody   int           // bytes of a reply's body, default 256 MiB
	Logger    *slog.Logger  // nil = discard
}

// Call is one request.
type Call struct {
	To       string   // id of the server meant, "" for whoever answers at the address
	Head     []byte   // at most MaxHead bytes
	Body     [][]byte // its pieces, sent in this order as one body; not written to until Call returns
	Priority Priority
	// Alloc provides the memory of the reply's body, of exactly n bytes; nil = make.
	Alloc func(n int) ([]byte, error)
}

// Reply is the answer to a Call.
type Reply struct {
	From string // id of the server
	Head []byte
	Body []byte
}

// Client makes calls to any number of servers over pooled connections: a control connection and, from the first large body on, a
// bulk connection per address.
type Client struct{}

// NewClient checks the configuration. It starts nothing.
func NewClient(cfg Config) (*Client, error) { return nil, errors.New("not yet") }

// Run owns all goroutines and connections of the client. It returns when ctx has ended and everything is closed; nil.
func (c *Client) Run(ctx context.Context) error { return errors.New("not yet") }

// Call sends one request to addr and waits for its reply. It waits for Run to be running. May be called concurrently.
func (c *Client) Call(ctx context.Context, addr string, call Call) (Reply, error) {
	return Reply{}, errors.New("not yet")
}
