package backend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
)

const (
	endsWithin = time.Minute // a death is noticed at once, but the machine may be busy
	streamed   = 1 << 20     // bytes of a message of those that never end
)

// playEnd is rank 1 of a pair in a process of its own: it does nothing, or sends or receives messages for ever. Its first line says that it is there.
func (s site) playEnd(ctx context.Context) error {
	network, err := s.sockets()
	if err != nil {
		return err
	}
	conn, err := network.Dial(ctx, s.Peer)
	if err != nil {
		return err
	}
	var device *hccl.Device
	if s.Transport == "hccl" {
		number, err := strconv.Atoi(s.Device)
		if err != nil {
			return err
		}
		if device, err = hccl.Open(hccl.Config{Device: number}); err != nil {
			return err
		}
		go func() { _ = device.Run(ctx) }()
	}
	fmt.Fprintln(os.Stdout, "listens", conn.LocalAddr())
	c, err := s.comm(ctx, device, conn, 1)
	if err != nil {
		return err
	}
	go func() { _ = c.Run(ctx) }()
	buf := make([]byte, streamed)
	for err == nil {
		switch s.Role {
		case "sends":
			_ = p2ptest.Pattern{N: streamed}.Fill(0, buf)
			err = p2p.Send(ctx, c, 0, p2p.Bytes(buf))
		case "receives":
			err = p2p.Recv(ctx, c, 0, p2p.Bytes(buf))
		default:
			<-ctx.Done()
			return nil
		}
	}
	return err
}

// TestPeerKilled kills the process at the other end of a pair in each phase of a transfer: whatever is pending ends with p2p.ErrPeer, what
// follows with p2p.ErrClosed, and nothing is left.
func TestPeerKilled(t *testing.T) {
	phases := []struct {
		name, role string
		kill       func(t *testing.T, c link.Comm, kill func()) []*p2p.Request // returns what must end, the last with an error
	}{
		{"idle", "idle", func(_ *testing.T, _ link.Comm, kill func()) []*p2p.Request {
			kill()
			return nil
		}},
		{"receive posted", "idle", func(_ *testing.T, c link.Comm, kill func()) []*p2p.Request {
			r := c.Irecv(1, p2p.Bytes(make([]byte, streamed)))
			kill()
			return []*p2p.Request{r}
		}},
		{"send posted", "idle", func(_ *testing.T, c link.Comm, kill func()) []*p2p.Request {
			r := c.Isend(1, p2p.Bytes(make([]byte, 16*streamed)))
			kill()
			return []*p2p.Request{r}
		}},
		{"receiving", "sends", killReceiving},
		{"sending", "receives", killSending},
	}
	eachRoad(t, func(t *testing.T, r *road) {
		t.Helper()
		var before usage
		for i, phase := range append(phases[:1:1], phases...) { // the first makes what lasts
			c, v := r.startEnd(t, phase.role)
			ran := make(chan error, 1)
			go func() { ran <- c.Run(t.Context()) }()
			pending := phase.kill(t, c, func() { check(t, v.kill()) })
			ctx, cancel := context.WithTimeout(t.Context(), endsWithin)
			for i, req := range pending {
				if err := req.Wait(ctx); !errors.Is(err, p2p.ErrPeer) && (err != nil || i == len(pending)-1) {
					t.Errorf("%s: request %d of %d: %v, want %v", phase.name, i, len(pending), err, p2p.ErrPeer)
				}
			}
			select {
			case err := <-ran:
				if !errors.Is(err, p2p.ErrPeer) {
					t.Errorf("%s: run: %v", phase.name, err)
				}
			case <-ctx.Done():
				t.Fatalf("%s: the death is not noticed", phase.name)
			}
			wantError(ctx, t, phase.name+": after that", c.Irecv(1, p2p.Bytes(make([]byte, 1))), p2p.ErrClosed)
			cancel()
			check(t, c.Close())
			if i == 0 {
				before = measure(t)
			}
		}
		before.wantLeft(t)
	}, "inproc")
}

// killReceiving kills the sender of a stream when some messages have come, whose contents must be right.
func killReceiving(t *testing.T, c link.Comm, kill func()) []*p2p.Request {
	t.Helper()
	const ahead = 4
	var reqs []*p2p.Request
	var bufs [][]byte
	for range 10 + ahead {
		bufs = append(bufs, make([]byte, streamed))
		reqs = append(reqs, c.Irecv(1, p2p.Bytes(bufs[len(bufs)-1])))
	}
	for i := range 10 {
		check(t, reqs[i].Wait(t.Context()))
		check(t, p2ptest.Pattern{N: streamed}.Take(0, bufs[i]))
	}
	more := func() {
		for range 64 { // more than can be on its way
			reqs = append(reqs, c.Irecv(1, p2p.Bytes(make([]byte, streamed))))
		}
	}
	more()
	kill()
	more() // all may have come before it was dead
	return reqs[10:]
}

// killSending kills the receiver of a stream when it has taken some messages.
func killSending(t *testing.T, c link.Comm, kill func()) []*p2p.Request {
	t.Helper()
	var reqs []*p2p.Request
	for range 300 {
		reqs = append(reqs, c.Isend(1, p2p.Bytes(make([]byte, streamed))))
	}
	for i := range 10 {
		check(t, reqs[i].Wait(t.Context()))
	}
	kill()
	return append(reqs[10:], c.Isend(1, p2p.Bytes(make([]byte, streamed)))) // all may have gone before it was dead
}

// startEnd starts a process that plays a role and makes rank 0 of the pair with it.
func (r *road) startEnd(t *testing.T, role string) (link.Comm, *victim) {
	t.Helper()
	l, err := r.network.Listen(t.Context(), r.listenAt())
	check(t, err)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Write(nil) // opens the door
			accepted <- conn
		}
	}()
	other := r.site
	other.Role, other.Device, other.Peer = role, "1", l.Addr().String()
	// What it says when its pair ends before it is killed is no fault.
	v, err := startVictim(t.Context(), other, func(error) {})
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), endsWithin)
	defer cancel()
	conn := <-accepted
	if conn == nil {
		t.Fatal("nobody came")
	}
	c, err := r.comm(ctx, r.devices[0], conn, 0)
	check(t, err)
	return c, v
}

func wantError(ctx context.Context, t *testing.T, what string, r *p2p.Request, want error) {
	t.Helper()
	if err := r.Wait(ctx); !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
