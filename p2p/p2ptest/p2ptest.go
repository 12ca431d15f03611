// Package p2ptest tests backends of p2p, and what is built on them under faults.
package p2ptest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"hcclps/p2p"
)

// TestComm checks that a backend keeps the promises of p2p.Comm.
func TestComm(t *testing.T, open func(t *testing.T, n int) []p2p.Comm) { t.Helper() }

// Faults says what goes wrong in a Faulty Comm; the last three are chances for each send, 0 to 1.
type Faults struct {
	Delay              time.Duration
	Drop, Cut, Corrupt float64
}

// Faulty wraps a Comm.
func Faulty(c p2p.Comm, seed uint64, f Faults) p2p.Comm { return c }

// Net is a network in this process whose links can be cut, delayed and reset.
type Net struct{}

// NewNet makes a network without faults.
func NewNet(seed uint64) *Net { return &Net{} }

// Host returns the view of a named host: what it listens on and dials is subject to faults by that name.
func (n *Net) Host(name string) *Host { return &Host{} }

// Cut makes bytes and new connections from one host to another disappear, until Heal.
func (n *Net) Cut(from, to string) {}

// Partition cuts both directions between every two hosts of different groups.
func (n *Net) Partition(groups ...[]string) {}

// Heal ends all cuts.
func (n *Net) Heal() {}

// Delay makes each piece of bytes take up to limit, by seed.
func (n *Net) Delay(limit time.Duration) {}

// Kill resets all connections of a host.
func (n *Net) Kill(host string) {}

// Close resets all connections and waits for the network's goroutines.
func (n *Net) Close() error { return nil }

// Host is one host's view of a Net.
type Host struct{}

// Listen opens addr.
func (h *Host) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return nil, errors.ErrUnsupported
}

// Dial connects to addr.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
