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
	if err != nil || h.kind != k || (k == kindData && uint64(h.size) != length || k != kindData && h.at != length) || h.seq != seq || h.rank != 0 {
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
		message := make([]byte, maxEager+1)
		copy(message, "to the peer")
		send := t.c.Isend(1, p2p.Bytes(message))
		synctest.Wait()
		_ = t.peer.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := t.peer.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Error("a long message was sent before a receive was posted")
		}
		_ = t.peer.SetReadDeadline(time.Time{})
		_, _ = t.peer.Write(control(kindReady, 1, 0, maxEager+1))
		if got := expect(t.T, t.peer, kindData, maxEager+1, 0); !bytes.Equal(got, message) {
			t.Error("other bytes were sent")
		}
		synctest.Wait()
		select {
		case <-send.Done():
			t.Error("the send completed before the peer took it")
		default:
		}
		_, _ = t.peer.Write(control(kindDone, 1, 0, 0))
		if err := send.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		got := make([]byte, 4)
		recv := t.c.Irecv(1, p2p.Bytes(got))
		expect(t.T, t.peer, kindReady, 4, 0)
		_, _ = t.peer.Write(data(1, 0, 0, "back"))
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
		flood = append(flood, control(kindReady, 1, uint64(i), 5)...)
	}
	wrongSum := data(1, 0, 0, "good")
	copy(wrongSum[headerSize:], "evil")
	wrongEarly := early(1, 0, "good")
	copy(wrongEarly[headerSize:], "evil")
	var manyEarly, muchEarly []byte
	for i := range maxEagerMessages + 1 {
		manyEarly = append(manyEarly, early(1, uint64(1+i), "")...)
	}
	for i := range maxEagerBytes/maxEager + 1 {
		muchEarly = append(muchEarly, early(1, uint64(1+i), string(make([]byte, maxEager)))...)
	}
	tests := []struct {
		name string
		send []byte
		want error
	}{
		{"closes", nil, p2p.ErrPeer},
		{"closes in a header", control(kindReady, 1, 0, 1)[:10], p2p.ErrPeer},
		{"closes in a payload", data(1, 0, 0, "good")[:headerSize+2], p2p.ErrPeer},
		{"speaks http", []byte("GET /here/and/there HTTP/1.1\r\nHost: here\r\n\r\n"), p2p.ErrCorrupt},
		{"speaks another version", append([]byte("p2\x09\x81"), make([]byte, headerSize)...), p2p.ErrPeer},
		{"unknown kind", control(9, 1, 0, 0), p2p.ErrCorrupt},
		{"same rank", control(kindReady, 0, 0, 1), p2p.ErrRank},
		{"ready out of order", control(kindReady, 1, 1, 1), p2p.ErrCorrupt},
		{"ready without end", flood, p2p.ErrCorrupt},
		{"done for nothing", control(kindDone, 1, 0, 0), p2p.ErrCorrupt},
		{"data out of order", data(1, 1, 0, "good"), p2p.ErrCorrupt},
		{"data too long", data(1, 0, 0, "longer"), p2p.ErrCorrupt},
		{"data beyond the end", data(1, 0, 2, "good"), p2p.ErrCorrupt},
		{"data far beyond the end", data(1, 0, 1<<63, "good"), p2p.ErrCorrupt},
		{"data without end", appendHeader(nil, header{kind: kindRaw, rank: 1, size: 1<<32 - 1}), p2p.ErrCorrupt},
		{"nothing of a message", data(1, 0, 0, ""), p2p.ErrCorrupt},
		{"data twice", append(data(1, 0, 1, "oo"), data(1, 0, 2, "od")...), p2p.ErrCorrupt},
		{"data with another sum", wrongSum, p2p.ErrCorrupt},
		{"early data and data", append(early(1, 1, "good"), data(1, 1, 0, "good")...), p2p.ErrCorrupt},
		{"data and early data", append(data(1, 0, 0, "go"), early(1, 0, "good")...), p2p.ErrCorrupt},
		{"early data twice", append(early(1, 1, "later"), early(1, 1, "later")...), p2p.ErrCorrupt},
		{"early data out of order", early(1, 2, "good"), p2p.ErrCorrupt},
		{"early data with another sum", wrongEarly, p2p.ErrCorrupt},
		{"early data that is long", early(1, 0, string(make([]byte, maxEager+1))), p2p.ErrCorrupt},
		{"early data that is long, aside", early(1, 1, string(make([]byte, maxEager+1))), p2p.ErrCorrupt},
		{"early data without end", manyEarly, p2p.ErrCorrupt},
		{"early data of many bytes", muchEarly, p2p.ErrCorrupt},
		{"early data of another length", append(early(1, 0, "longer"), control(kindRefuse, 1, 0, 6)...), p2p.ErrLength},
		{"early data of another length, twice", append(early(1, 0, "longer"), early(1, 0, "good")...), p2p.ErrCorrupt},
		{"early data of another length, then data", append(early(1, 0, "longer"), data(1, 0, 0, "good")...), p2p.ErrCorrupt},
		{"refusal", control(kindRefuse, 1, 0, 1<<40), p2p.ErrLength},
		{"refusal of nothing", control(kindRefuse, 1, 3, 4), p2p.ErrCorrupt},
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
	good := append(control(kindReady, 1, 0, 4), data(1, 0, 0, string(sent))...)
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
		_, _ = t.peer.Write(control(kindReady, 1, 0, 3))
		synctest.Wait()
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
		_, _ = t.peer.Write(control(kindReady, 1, 0, 1<<20))
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

func TestDeviceMemoryIsRefused(t *testing.T) {
	a, b := inproc.Pipe(0)
	defer b.Close()
	c := Pair([]net.Conn{a}, 0)
	defer c.Close()
	for name, r := range map[string]*p2p.Request{"send": c.Isend(1, p2p.Device(64, 8, 0)), "receive": c.Irecv(1, p2p.Device(64, 8, 0))} {
		if err := r.Wait(t.Context()); !errors.Is(err, errDevice) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Isend(1, p2p.Bytes(nil)).Wait(ended(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a send after that: %v", err)
	}
}

// ended is a context that has ended.
func ended(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
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
	f.Add(control(kindReady, 1, 0, 3), []byte{})
	f.Add(data(1, 0, 0, "ab"), []byte("p2"))
	f.Add(data(1, 0, 1, "b"), data(1, 0, 0, "a"))
	f.Add(append(append(control(kindReady, 1, 0, 3), control(kindDone, 1, 0, 0)...), "p2"...), data(1, 1, 0, ""))
	f.Add(control(kindRefuse, 1, 0, 9), []byte{})
	f.Add(append(append(early(1, 0, "ab"), early(1, 1, "")...), early(1, 2, "kept")...), []byte{})
	f.Add(append(control(kindReady, 1, 0, 4), early(1, 0, "odd")...), data(1, 1, 0, ""))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var conns, peer []net.Conn
		for _, input := range [][]byte{first, second} {
			a, b := inproc.Pipe(len(input) + 1)
			conns, peer = append(conns, a), append(peer, b)
			go func() { _, _ = io.Copy(io.Discard, b) }()
		}
		c := Pair(conns, 0)
		reqs := []*p2p.Request{
			c.Irecv(1, p2p.Bytes(make([]byte, 2))),
			c.Irecv(1, p2p.Bytes(make([]byte, 0))),
			c.Isend(1, p2p.Bytes([]byte("abc"))),
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		_, _ = peer[1].Write(second)
		_, _ = peer[0].Write(first)
		for _, p := range peer {
			_ = p.Close()
		}
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
