package p2p_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/tcp"
)

// handGathering is a handComm that gathers, if it says so.
type handGathering struct {
	*handComm
	gathers bool
	places  chan [][]byte
}

func (c *handGathering) Gathers() bool { return c.gathers }

func (c *handGathering) IsendGathered(_ int, places [][]byte) *p2p.Request {
	c.places <- places
	return c.post(bytes.Join(places, nil))
}

// A chunk goes from where it lies if it lies in few places, and its Comm takes it from there.
func TestAChunkIsGathered(t *testing.T) {
	small := make([][]byte, 3000)
	for i := range small {
		small[i] = []byte{byte(i), byte(i >> 8)}
	}
	large := [][]byte{noise(1, 2900), {}, noise(2, 100), noise(3, 3000)}
	for _, c := range []struct {
		what    string
		body    [][]byte
		gathers bool
		want    int // places of the chunk; 0: it is copied
	}{
		{"a few places", large, true, 3},
		{"a few places, over a comm that takes one", large, false, 0},
		{"many places", small, true, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				places := make(chan [][]byte, 10)
				h := newByHandOver(t, p2p.Policy{}, func(comm *handComm) p2p.RunningComm { return &handGathering{comm, c.gathers, places} })
				out := h.Send(1, c.body...)
				synctest.Wait()
				whole := bytes.Join(c.body, nil)
				const from, n = 2800, 3000
				for _, s := range []p2p.Signal{
					{Kind: p2p.SignalGrantSure, ID: 1, Bytes: from},
					{Kind: p2p.SignalGrantSure, ID: 1, Offset: from, Bytes: n},
					{Kind: p2p.SignalGrantSure, ID: 1, Offset: from + n, Bytes: uint32(len(whole) - from - n)},
				} {
					if err := h.Signalled(s); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				for _, want := range [][]byte{whole[:from], whole[from:][:n], whole[from+n:]} {
					if got := <-h.comm.bufs; !bytes.Equal(got, want) {
						t.Errorf("a chunk of %d bytes, want other %d", len(got), len(want))
					}
				}
				if c.want == 0 && len(places) > 0 {
					t.Errorf("%d chunks were gathered", len(places))
				}
				if c.want > 0 {
					gathered := <-places // of the second chunk: the others lie in one piece
					if len(gathered) != c.want || &gathered[0][0] != &c.body[0][from] || &gathered[2][0] != &c.body[3][0] {
						t.Errorf("gathered from %d places, want those of the body", len(gathered))
					}
				}
				h.complete(3)
				if <-out.Done(); out.Err() != nil {
					t.Error(out.Err())
				}
				h.end(t)
			})
		})
	}
}

// lying is a Source that is in two places a chunk, and in no one.
type lying struct{ body []byte }

func (l lying) Len() int { return len(l.body) }

func (l lying) Fill(int, []byte) error { return errors.New("it is copied") }

func (l lying) Locate(off, n, _ int) [][]byte {
	return [][]byte{l.body[off:][:n/2], l.body[off:][n/2 : n]}
}

// loops makes the Comms of each epoch over loopback. The receiver of the first one halts in the middle of a chunk.
type loops struct {
	mu    sync.Mutex
	opens [2]int
	pairs [][2]*tcp.Comm
	first *p2ptest.Halting
}

func newLoops() *loops { return &loops{first: p2ptest.NewHalting(nil, 200_000)} }

func (l *loops) open(ctx context.Context, rank int) (p2p.RunningComm, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.opens[rank]
	l.opens[rank]++
	if n == len(l.pairs) {
		here, there, err := loop(ctx)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			l.first.Conn = there
			there = l.first
		}
		sums := tcp.Config{Checksum: tcp.ChecksumOn}
		l.pairs = append(l.pairs, [2]*tcp.Comm{sums.Pair([]net.Conn{here}, 0), sums.Pair([]net.Conn{there}, 1)})
	}
	return l.pairs[n][rank], nil
}

// cut closes the sender's Comm of the first epoch.
func (l *loops) cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pairs[0][0].Close()
}

// loop makes both ends of a connection that has little room in the kernel.
func loop(ctx context.Context) (here, there net.Conn, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	var dialer net.Dialer
	if here, err = dialer.DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if there, err = l.Accept(); err != nil {
		return nil, nil, err
	}
	return here, there, errors.Join(here.(*net.TCPConn).SetWriteBuffer(16<<10), there.(*net.TCPConn).SetReadBuffer(16<<10))
}

// The memory of a gathered transfer is its owner's again as soon as it is done, given up or not, over one Comm or two: what it becomes does not arrive.
func TestGatheredMemoryIsFreeWhenItIsDone(t *testing.T) {
	t.Parallel() // all wait for Comms that end
	for _, c := range []struct{ cancel, cut bool }{{true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("cancelled %v, cut %v", c.cancel, c.cut), func(t *testing.T) {
			t.Parallel()
			freed(t, c.cancel, c.cut)
		})
	}
}

func freed(t *testing.T, cancel, cut bool) {
	t.Helper()
	const after = 0xff
	await := func(done <-chan struct{}) {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
	}
	links := newLoops()
	policy := p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1 << 20}, Stall: time.Minute, Agree: time.Minute}
	both := connected(t, policy, links.open)
	body, got := noise(1, 5<<20), make([]byte, 5<<20)
	for i := range body {
		body[i] &= 0x7f
	}
	want := bytes.Clone(body)
	out := both.ends[0].SendFrom(1, lying{body})
	both.told(1)
	in := both.ends[1].Receive(1, p2p.Push, got)
	await(links.first.Halted())
	enough := errors.New("enough")
	if cancel {
		out.Cancel(enough)
		select {
		case <-out.Done():
			t.Error("done while a chunk was being sent")
		default:
		}
	}
	if !cut {
		links.first.GoOn()
	} else if err := links.cut(); err != nil {
		t.Fatal(err)
	}
	await(out.Done())
	for i := range body {
		body[i] = after
	}
	links.first.GoOn()
	await(in.Done())
	switch {
	case cancel && (!errors.Is(out.Err(), enough) || in.Err() == nil || bytes.IndexByte(got, after) >= 0):
		t.Errorf("given up: %v, %v; byte %d is of later", out.Err(), in.Err(), bytes.IndexByte(got, after))
	case !cancel && (out.Err() != nil || in.Err() != nil || !bytes.Equal(got, want)):
		t.Errorf("%v, %v, or other bytes came", out.Err(), in.Err())
	}
	out, again := both.ends[0].SendFrom(2, lying{want}), make([]byte, len(want))
	both.told(1)
	in = both.ends[1].Receive(2, p2p.Push, again)
	await(in.Done())
	await(out.Done())
	if out.Err() != nil || in.Err() != nil || !bytes.Equal(again, want) {
		t.Errorf("the next: %v, %v, or other bytes came", out.Err(), in.Err())
	}
	if resets := both.ends[0].Stats().Resets; cut && resets == 0 {
		t.Error("the comm was not replaced")
	}
}
