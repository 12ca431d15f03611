package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

// half is rank 0 of a pair whose other side is the test itself.
type half struct {
	*testing.T
	c     *Comm
	ended <-chan error // what Run returned
	peer  net.Conn
}

// against runs a half in fake time.
func against(t *testing.T, run func(t *half)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mine, peer := inproc.Pipe(0)
		defer peer.Close()
		c := Pair([]net.Conn{mine}, 0)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		run(&half{t, c, ended, peer})
	})
}

// expect reads one frame and its payload from the Comm under test.
func expect(t *testing.T, peer net.Conn, k kind, length, seq uint64) []byte {
	t.Helper()
	var b [headerSize]byte
	if _, err := io.ReadFull(peer, b[:]); err != nil {
		t.Fatal(err)
	}
	h, err := parseHeader(b[:])
	if err != nil || h.kind != k || h.length != length || h.seq != seq || h.rank != 0 {
		t.Fatalf("frame %+v, %v, want kind %d, length %d, number %d of rank 0", h, err, k, length, seq)
	}
	if k != kindData {
		return nil
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(peer, payload); err != nil {
		t.Fatal(err)
	}
	return payload
}

func TestFramesOfATransfer(t *testing.T) {
	against(t, func(t *half) {
		send := t.c.Isend(1, p2p.Bytes([]byte("to the peer")))
		synctest.Wait()
		_ = t.peer.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := t.peer.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Error("something was sent before a receive was posted")
		}
		_ = t.peer.SetReadDeadline(time.Time{})
		_, _ = t.peer.Write(appendHeader(nil, kindReady, 1, 11, 0, nil))
		if got := expect(t.T, t.peer, kindData, 11, 0); string(got) != "to the peer" {
			t.Errorf("sent %q", got)
		}
		synctest.Wait()
		select {
		case <-send.Done():
			t.Error("the send completed before the peer took it")
		default:
		}
		_, _ = t.peer.Write(appendHeader(nil, kindDone, 1, 0, 0, nil))
		if err := send.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		got := make([]byte, 4)
		recv := t.c.Irecv(1, p2p.Bytes(got))
		expect(t.T, t.peer, kindReady, 4, 0)
		_, _ = t.peer.Write(append(appendHeader(nil, kindData, 1, 4, 0, []byte("back")), "back"...))
		expect(t.T, t.peer, kindDone, 0, 0)
		if err := recv.Wait(t.Context()); err != nil || string(got) != "back" {
			t.Errorf("received %q: %v", got, err)
		}
		_ = t.c.Close()
		if err := <-t.ended; err != nil {
			t.Errorf("run after close: %v", err)
		}
	})
}

// What a broken or hostile peer may send, each of which must end the Comm with an error that says so.
func TestBrokenPeers(t *testing.T) {
	flood := make([]byte, 0, (maxPosted+1)*headerSize)
	for i := range maxPosted + 1 {
		flood = appendHeader(flood, kindReady, 1, 5, uint64(i), nil)
	}
	wrongSum := append(appendHeader(nil, kindData, 1, 4, 0, []byte("good")), "evil"...)
	tests := []struct {
		name string
		send []byte
		want error
	}{
		{"closes", nil, p2p.ErrPeer},
		{"closes in a header", appendHeader(nil, kindReady, 1, 1, 0, nil)[:10], p2p.ErrPeer},
		{"closes in a payload", append(appendHeader(nil, kindData, 1, 4, 0, []byte("good")), "go"...), p2p.ErrPeer},
		{"speaks http", []byte("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), p2p.ErrCorrupt},
		{"speaks another version", []byte("p2\x09\x8100000000000000000000"), p2p.ErrPeer},
		{"unknown kind", appendHeader(nil, 9, 1, 0, 0, nil), p2p.ErrCorrupt},
		{"same rank", appendHeader(nil, kindReady, 0, 1, 0, nil), p2p.ErrRank},
		{"ready out of order", appendHeader(nil, kindReady, 1, 1, 1, nil), p2p.ErrCorrupt},
		{"ready without end", flood, p2p.ErrCorrupt},
		{"done for nothing", appendHeader(nil, kindDone, 1, 0, 0, nil), p2p.ErrCorrupt},
		{"data out of order", appendHeader(nil, kindData, 1, 4, 1, nil), p2p.ErrCorrupt},
		{"data too long", appendHeader(nil, kindData, 1, 1<<62, 0, nil), p2p.ErrCorrupt},
		{"data with another sum", wrongSum, p2p.ErrCorrupt},
		{"refusal", appendHeader(nil, kindRefuse, 1, 1<<40, 0, nil), p2p.ErrLength},
		{"refusal of nothing", appendHeader(nil, kindRefuse, 1, 4, 3, nil), p2p.ErrCorrupt},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			against(t, func(t *half) {
				recv := t.c.Irecv(1, p2p.Bytes(make([]byte, 4)))
				expect(t.T, t.peer, kindReady, 4, 0)
				_, _ = t.peer.Write(test.send)
				_ = t.peer.Close()
				if err := <-t.ended; !errors.Is(err, test.want) {
					t.Errorf("run: %v, want %v", err, test.want)
				}
				if err := recv.Wait(t.Context()); !errors.Is(err, test.want) {
					t.Errorf("receive: %v, want %v", err, test.want)
				}
			})
		})
	}
}

// Every single bit that flips on the way must be noticed by one side or the other.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	sent := []byte("some bytes of a message")
	good := appendHeader(nil, kindReady, 1, 4, 0, nil)
	good = appendHeader(good, kindData, 1, uint64(len(sent)), 0, sent)
	good = append(good, sent...)
	for bit := range len(good) * 8 {
		against(t, func(t *half) {
			recv := t.c.Irecv(1, p2p.Bytes(make([]byte, len(sent))))
			expect(t.T, t.peer, kindReady, uint64(len(sent)), 0)
			bad := bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			_, _ = t.peer.Write(bad)
			_ = t.peer.Close()
			if err := recv.Wait(t.Context()); err == nil {
				t.Errorf("bit %d flipped and the message was taken", bit)
			}
			if err := <-t.ended; err == nil {
				t.Errorf("bit %d flipped and run ended well", bit)
			}
		})
	}
}

// The refusal must not be lost because this side closes with something of the peer unread; nor may a stuck peer matter.
func TestRefusalWaitsForThePeer(t *testing.T) {
	against(t, func(t *half) {
		_, _ = t.peer.Write(appendHeader(nil, kindReady, 1, 3, 0, nil))
		send := t.c.Isend(1, p2p.Bytes(make([]byte, 5)))
		expect(t.T, t.peer, kindRefuse, 5, 0)
		begin := time.Now()
		if err := <-t.ended; !errors.Is(err, p2p.ErrLength) {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(begin); took != linger {
			t.Errorf("closed %v after the refusal, want %v for a peer that does not close", took, linger)
		}
		if err := send.Wait(t.Context()); !errors.Is(err, p2p.ErrLength) {
			t.Errorf("send: %v", err)
		}
	})
}

// A peer that stops reading in the middle of a message holds up neither Close nor the buffer for long.
func TestCloseBesideStuckPeer(t *testing.T) {
	against(t, func(t *half) {
		_, _ = t.peer.Write(appendHeader(nil, kindReady, 1, 1<<20, 0, nil))
		send := t.c.Isend(1, p2p.Bytes(make([]byte, 1<<20)))
		synctest.Wait()
		begin := time.Now()
		_ = t.c.Close()
		if err := send.Wait(t.Context()); !errors.Is(err, p2p.ErrClosed) {
			t.Errorf("send: %v", err)
		}
		if err := <-t.ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(begin); took > linger {
			t.Errorf("close took %v", took)
		}
	})
}

func TestEndOfRunsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(0)
		defer b.Close()
		c := Pair([]net.Conn{a}, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		recv := c.Irecv(1, p2p.Bytes(make([]byte, 1))) // before Run: it waits for it
		go func() { ended <- c.Run(ctx) }()
		expect(t, b, kindReady, 1, 0)
		reason := errors.New("going home")
		cancel(reason)
		if err := <-ended; !errors.Is(err, reason) {
			t.Errorf("run: %v", err)
		}
		if err := recv.Wait(t.Context()); !errors.Is(err, p2p.ErrClosed) || !errors.Is(err, reason) {
			t.Errorf("pending receive: %v", err)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("run ran twice")
		}
		if err := c.Close(); err != nil {
			t.Errorf("close after run: %v", err)
		}
	})
}

func TestCloseWithoutRun(t *testing.T) {
	a, b := inproc.Pipe(0)
	c := Pair([]net.Conn{a}, 1)
	send := c.Isend(0, p2p.Bytes(nil))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := send.Wait(t.Context()); !errors.Is(err, p2p.ErrClosed) {
		t.Errorf("pending send: %v", err)
	}
	if err := c.Run(t.Context()); err != nil {
		t.Errorf("run after close: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer does not see the end: %v", err)
	}
}

func TestPairHasTwoRanks(t *testing.T) {
	a, b := inproc.Pipe(0)
	defer b.Close()
	c := Pair([]net.Conn{a}, 2)
	if err := c.Run(t.Context()); !errors.Is(err, p2p.ErrRank) {
		t.Errorf("run: %v", err)
	}
	if err := c.Isend(0, p2p.Bytes(nil)).Wait(t.Context()); !errors.Is(err, p2p.ErrRank) {
		t.Errorf("send: %v", err)
	}
}

// FuzzPeer feeds a Comm with whatever: it must end, and by an error.
func FuzzPeer(f *testing.F) {
	f.Add(appendHeader(nil, kindReady, 1, 3, 0, nil))
	f.Add(append(appendHeader(nil, kindData, 1, 2, 0, []byte("ab")), "ab"...))
	f.Add(append(appendHeader(appendHeader(nil, kindReady, 1, 3, 0, nil), kindDone, 1, 0, 0, nil), "p2"...))
	f.Add(appendHeader(nil, kindRefuse, 1, 9, 0, nil))
	f.Fuzz(func(t *testing.T, input []byte) {
		mine, peer := inproc.Pipe(len(input) + 1)
		c := Pair([]net.Conn{mine}, 0)
		reqs := []*p2p.Request{
			c.Irecv(1, p2p.Bytes(make([]byte, 2))),
			c.Irecv(1, p2p.Bytes(make([]byte, 0))),
			c.Isend(1, p2p.Bytes([]byte("abc"))),
		}
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		_, _ = peer.Write(input)
		_ = peer.Close()
		if err := <-ended; err == nil {
			t.Error("run ended well without close")
		}
		for _, r := range reqs {
			_ = r.Wait(t.Context())
			select {
			case <-r.Done():
			default:
				t.Error("a request is pending after run")
			}
		}
	})
}
