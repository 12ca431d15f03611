package p2ptest

import (
	"net"
	"sync"
)

// Halting is a connection of which so many bytes are read, and no more until it goes on or is closed.
type Halting struct {
	net.Conn
	left    int
	halted  chan struct{}
	halt    func() // closes halted, once
	goingOn chan struct{}
	goOn    func()
}

// NewHalting halts conn after that many bytes.
func NewHalting(conn net.Conn, bytes int) *Halting {
	halted, goingOn := make(chan struct{}), make(chan struct{})
	return &Halting{conn, bytes, halted, sync.OnceFunc(func() { close(halted) }), goingOn, sync.OnceFunc(func() { close(goingOn) })}
}

// Halted is closed when somebody wants to read more.
func (h *Halting) Halted() <-chan struct{} { return h.halted }

// GoOn has all read that comes, from now on.
func (h *Halting) GoOn() { h.goOn() }

// Close closes the connection, whose reader goes on.
func (h *Halting) Close() error {
	h.goOn()
	return h.Conn.Close()
}

// Read halts at its byte; it is called by one goroutine at a time.
func (h *Halting) Read(b []byte) (int, error) {
	if h.left == 0 {
		h.halt()
		<-h.goingOn
		return h.Conn.Read(b)
	}
	n, err := h.Conn.Read(b[:min(len(b), h.left)])
	h.left -= n
	return n, err
}
