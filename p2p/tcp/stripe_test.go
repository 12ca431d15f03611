package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

// striped runs rank 0 of a pair whose other side is the test, on several connections, in fake time.
func striped(t *testing.T, stripes int, run func(t *testing.T, c *Comm, peer []net.Conn, ended <-chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mine, peer []net.Conn
		for range stripes {
			a, b := inproc.Pipe(4 << 10)
			defer b.Close()
			mine, peer = append(mine, a), append(peer, b)
		}
		c := Pair(mine, 0)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		run(t, c, peer, ended)
	})
}

// A long message is on all connections, every byte once.
func TestPiecesAreOnAllConnections(t *testing.T) {
	striped(t, 3, func(t *testing.T, c *Comm, peer []net.Conn, _ <-chan error) {
		t.Helper()
		msg := make([]byte, 3*maxSummed+12345)
		for i := range msg {
			msg[i] = byte(i * 7 / 3)
		}
		got := make([]byte, len(msg))
		send := c.Isend(1, p2p.Bytes(msg))
		_, _ = peer[0].Write(control(kindReady, 1, 0, uint64(len(msg))))
		pieces := make([]int, len(peer))
		total := 0
		for k := 0; total < len(msg); k = (k + 1) % len(peer) {
			synctest.Wait()
			var b [headerSize]byte
			if _ = peer[k].SetReadDeadline(time.Now().Add(time.Second)); readFull(peer[k], b[:]) != nil {
				continue
			}
			h, err := parseHeader(b[:])
			if err != nil || h.kind != kindData || h.seq != 0 || h.rank != 0 {
				t.Fatalf("connection %d: %+v, %v", k, h, err)
			}
			if err := readFull(peer[k], got[h.at:h.at+uint64(h.size)]); err != nil {
				t.Fatal(err)
			}
			pieces[k]++
			total += int(h.size)
		}
		if !bytes.Equal(got, msg) {
			t.Error("the pieces are not the message")
		}
		for k, n := range pieces {
			if n == 0 {
				t.Errorf("connection %d carried nothing: %v", k, pieces)
			}
		}
		_, _ = peer[0].Write(control(kindDone, 1, 0, 0))
		if err := send.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return err
}

// Pieces may come in any order, also those of different messages; receives complete in order.
func TestPiecesInAnyOrder(t *testing.T) {
	striped(t, 2, func(t *testing.T, c *Comm, peer []net.Conn, _ <-chan error) {
		t.Helper()
		first, second := make([]byte, 9), make([]byte, 3)
		one, two := c.Irecv(1, p2p.Bytes(first)), c.Irecv(1, p2p.Bytes(second))
		expect(t, peer[0], kindReady, 9, 0)
		expect(t, peer[0], kindReady, 3, 1)
		_, _ = peer[1].Write(data(1, 0, 6, "789"))
		_, _ = peer[0].Write(data(1, 1, 0, "abc"))
		_, _ = peer[0].Write(data(1, 0, 0, "123"))
		synctest.Wait()
		for i, r := range []*p2p.Request{one, two} {
			select {
			case <-r.Done():
				t.Errorf("receive %d is complete", i)
			default:
			}
		}
		_, _ = peer[1].Write(data(1, 0, 3, "456"))
		for _, r := range []*p2p.Request{one, two} {
			if err := r.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if string(first)+string(second) != "123456789abc" {
			t.Errorf("received %q and %q", first, second)
		}
		expect(t, peer[0], kindDone, 0, 1)
	})
}

// The end of one connection is the end of the Comm, with an error that says which it was; but what the peer said on the first
// before it closed them all counts.
func TestEndOfAStripe(t *testing.T) {
	striped(t, 3, func(t *testing.T, c *Comm, peer []net.Conn, ended <-chan error) {
		t.Helper()
		recv := c.Irecv(1, p2p.Bytes(make([]byte, 1)))
		expect(t, peer[0], kindReady, 1, 0)
		send := c.Isend(1, p2p.Bytes([]byte("x")))
		_, _ = peer[0].Write(control(kindReady, 1, 0, 1))
		expect(t, peer[0], kindData, 1, 0)
		_ = peer[2].Close()
		synctest.Wait()
		_, _ = peer[0].Write(control(kindDone, 1, 0, 0))
		if err := send.Wait(t.Context()); err != nil {
			t.Errorf("send that the peer had taken: %v", err)
		}
		begin := time.Now()
		if err := recv.Wait(t.Context()); !errors.Is(err, p2p.ErrPeer) || !strings.Contains(err.Error(), "connection 3 of 3") {
			t.Errorf("receive: %v", err)
		}
		if err := <-ended; !errors.Is(err, p2p.ErrPeer) {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(begin); took > linger {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestOnlyDataOnStripes(t *testing.T) {
	striped(t, 2, func(t *testing.T, _ *Comm, peer []net.Conn, ended <-chan error) {
		t.Helper()
		_, _ = peer[1].Write(control(kindReady, 1, 0, 4))
		if err := <-ended; !errors.Is(err, p2p.ErrCorrupt) {
			t.Errorf("run: %v", err)
		}
	})
}

// A refusal waits for the pieces before it.
func TestRefusalAfterPieces(t *testing.T) {
	striped(t, 2, func(t *testing.T, c *Comm, peer []net.Conn, ended <-chan error) {
		t.Helper()
		const size = 2 * maxSummed
		first, second := c.Isend(1, p2p.Bytes(make([]byte, size))), c.Isend(1, p2p.Bytes(make([]byte, maxEager+1)))
		_, _ = peer[0].Write(append(control(kindReady, 1, 0, size), control(kindReady, 1, 1, 4)...))
		synctest.Wait() // each writer has a piece that does not fit into its pipe
		expect(t, peer[0], kindData, maxSummed, 0)
		synctest.Wait() // the other one is not read yet
		_ = peer[0].SetReadDeadline(time.Now().Add(time.Second))
		if n, _ := peer[0].Read(make([]byte, 1)); n != 0 {
			t.Error("the refusal overtook a piece")
		}
		_ = peer[0].SetReadDeadline(time.Time{})
		expect(t, peer[1], kindData, maxSummed, 0)
		expect(t, peer[0], kindRefuse, maxEager+1, 1)
		_ = peer[0].Close()
		if err := <-ended; !errors.Is(err, p2p.ErrLength) {
			t.Errorf("run: %v", err)
		}
		for _, r := range []*p2p.Request{first, second} {
			if err := r.Wait(t.Context()); !errors.Is(err, p2p.ErrLength) {
				t.Errorf("send: %v", err)
			}
		}
	})
}

func TestPairOverNothing(t *testing.T) {
	c := Pair(nil, 0)
	if err := c.Run(t.Context()); err == nil {
		t.Error("ran over no connection")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
