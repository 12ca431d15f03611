package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// Handler answers requests. Serve runs in a goroutine of its own for each request and must call Reply once before it returns. ctx ends when the
// caller cancels, its connection dies or the server stops. r is not used after Serve returns.
type Handler interface {
	Serve(ctx context.Context, r *Request)
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, r *Request)

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, r *Request) { f(ctx, r) }

// ServerConfig describes a Server. Handler, Pair and Identity are needed, all else has a good default.
type ServerConfig struct {
	Handler     Handler
	Pair        PairFunc
	Identity    Identity
	Heartbeat   time.Duration // default 500 ms
	Suspect     time.Duration // default 2 s
	Window      int           // chunks granted and not yet received per connection, default 4
	Chunk       int           // bytes of a chunk, default 1 MiB
	MaxBody     int           // bytes of a request's body, default 256 MiB
	MaxRequests int           // running at once per connection, default 256; further ones wait at the caller
	Logger      *slog.Logger  // nil = discard
}

// Server answers calls on connections that a Gate let pass.
type Server struct{}

// NewServer checks the configuration. It starts nothing.
func NewServer(cfg ServerConfig) (*Server, error) { return nil, errors.New("not yet") }

// Run owns all goroutines and connections of the server. It returns when ctx has ended, handlers have returned and everything is closed; nil.
func (s *Server) Run(ctx context.Context) error { return errors.New("not yet") }

// Accept hands over a connection whose hello was for Control or Bulk; the Server closes it, at once when it cannot use it.
func (s *Server) Accept(conn net.Conn, h Hello) {}

// Request is a call as its handler sees it.
type Request struct {
	Peer     Hello    // who calls
	Head     []byte   // belongs to the handler
	BodyLen  int      // bytes
	Priority Priority // of the call; its reply's body has the same
}

// Body grants and receives the body into new memory. Nothing of a large body travels before: that is the back-pressure. Body or BodyInto
// may be called once.
func (r *Request) Body(ctx context.Context) ([]byte, error) { return nil, errors.New("not yet") }

// BodyInto is Body into dst, whose length must be BodyLen.
func (r *Request) BodyInto(ctx context.Context, dst []byte) error { return errors.New("not yet") }

// Reply answers the request, once. The pieces of body are sent as one body and are read until Reply returns.
func (r *Request) Reply(head []byte, body ...[]byte) error { return errors.New("not yet") }
