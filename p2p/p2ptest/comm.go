package p2ptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
)

// patience bounds every wait of the suite; what takes longer hangs.
const patience = 20 * time.Second

// TestComm checks that a backend keeps the promises of p2p.Comm. open makes n connected ranks, ready for use, and
// registers with t.Cleanup what must be stopped after them; it calls t.Skip for an n it does not support (2 it must).
// The suite closes the ranks itself, and checks that nothing is left of them: so nothing else of this process may run beside it.
func TestComm(t *testing.T, open func(t *testing.T, n int) []p2p.Comm) {
	tests := []struct {
		name string
		size int
		run  func(*world)
	}{
		{"Identity", 2, testIdentity},
		{"Lengths", 2, testLengths},
		{"SendFirst", 2, testSendFirst},
		{"Order", 2, testOrder},
		{"BothDirections", 2, testBothDirections},
		{"DirectionsAreIndependent", 2, testIndependent},
		{"ManyOutstanding", 2, testManyOutstanding},
		{"ConcurrentCallers", 2, testConcurrentCallers},
		{"AllPairs", 4, testAllPairs},
		{"WrongRank", 2, testWrongRank},
		{"WrongLengthShort", 2, func(w *world) { testWrongLength(w, 999, 1000) }},
		{"WrongLengthLong", 2, func(w *world) { testWrongLength(w, 100_000, 0) }},
		{"Context", 2, testContext},
		{"Close", 2, testClose},
		{"CloseAfterLastTransfer", 2, testCloseAfterLast},
		{"PeerCloses", 2, testPeerCloses},
		{"CloseDuringTransfers", 2, testCloseDuringTransfers},
		{"OthersSurvive", 3, testOthersSurvive},
	}
	warm(t, open)
	for _, test := range tests {
		before := hold(t)
		t.Run(test.name, func(t *testing.T) {
			test.run(start(t, open, test.size))
		})
		before.wantLeft(t)
	}
}

// world is the ranks under test.
type world struct {
	*testing.T
	comms []p2p.Comm
	ctx   context.Context //nolint:containedctx // the deadline of one subtest
}

func start(t *testing.T, open func(t *testing.T, n int) []p2p.Comm, n int) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{T: t, comms: open(t, n), ctx: ctx}
	if len(w.comms) != n {
		t.Fatalf("open made %d ranks of %d", len(w.comms), n)
	}
	t.Cleanup(w.closeAll) // before the cleanups of open
	return w
}

func (w *world) closeAll() {
	for r, c := range w.comms {
		if err := c.Close(); err != nil {
			w.Errorf("close rank %d: %v", r, err)
		}
	}
}

// want waits for a Request and checks its error: nil, or one that wraps want.
func (w *world) want(r *p2p.Request, want error, what string, args ...any) {
	w.Helper()
	if err := r.Wait(w.ctx); (want == nil) != (err == nil) || !errors.Is(err, want) {
		w.Errorf("%s: error %v, want %v", fmt.Sprintf(what, args...), err, want)
	}
}

// wantDead checks that a rank refuses to work.
func (w *world) wantDead(rank int) {
	w.Helper()
	c := w.comms[rank]
	peer := (rank + 1) % c.Size()
	w.want(c.Isend(peer, p2p.Bytes(nil)), p2p.ErrClosed, "send at dead rank %d", rank)
	w.want(c.Irecv(peer, p2p.Bytes(nil)), p2p.ErrClosed, "receive at dead rank %d", rank)
}

// message makes content that tells messages and positions apart.
func message(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		if i%7 == 0 {
			b[i] = byte(rng.Uint32())
		} else {
			b[i] = b[i-1] + byte(i)
		}
	}
	return b
}

func testIdentity(w *world) {
	for r, c := range w.comms {
		if c.Rank() != r || c.Size() != len(w.comms) {
			w.Errorf("rank %d of %d says it is %d of %d", r, len(w.comms), c.Rank(), c.Size())
		}
	}
}

func testLengths(w *world) {
	for _, n := range []int{0, 1, 2, 3, 255, 4096, 65_537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 3} {
		for from := range 2 {
			want, got := message(uint64(from), n), make([]byte, n)
			recv := w.comms[1-from].Irecv(from, p2p.Bytes(got))
			send := w.comms[from].Isend(1-from, p2p.Bytes(want))
			w.want(recv, nil, "receive of %d bytes", n)
			w.want(send, nil, "send of %d bytes", n)
			if !bytes.Equal(got, want) {
				w.Errorf("%d bytes from rank %d arrived changed", n, from)
			}
		}
	}
}

func testSendFirst(w *world) {
	want, got := message(1, 300_000), make([]byte, 300_000)
	send := w.comms[0].Isend(1, p2p.Bytes(want))
	if err := p2p.Recv(w.ctx, w.comms[1], 0, p2p.Bytes(got)); err != nil {
		w.Error(err)
	}
	w.want(send, nil, "send before its receive")
	if !bytes.Equal(got, want) {
		w.Error("bytes arrived changed")
	}
}

func testOrder(w *world) {
	const count = 400
	rng := rand.New(rand.NewPCG(3, 4))
	sizes := make([]int, count)
	for i := range sizes {
		if sizes[i] = int(rng.Uint32() % 64); i%10 == 0 {
			sizes[i] = int(rng.Uint32() % 100_000)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		var sends []*p2p.Request
		for i, n := range sizes {
			sends = append(sends, w.comms[0].Isend(1, p2p.Bytes(message(uint64(i), n))))
		}
		for i, s := range sends {
			w.want(s, nil, "send %d", i)
		}
	})
	for i, n := range sizes {
		got := make([]byte, n)
		if err := p2p.Recv(w.ctx, w.comms[1], 0, p2p.Bytes(got)); err != nil {
			w.Errorf("receive %d: %v", i, err)
			break
		}
		if !bytes.Equal(got, message(uint64(i), n)) {
			w.Errorf("receive %d took other bytes", i)
		}
	}
	wg.Wait()
}

func testBothDirections(w *world) {
	const n = 8 << 20
	got := [2][]byte{make([]byte, n), make([]byte, n)}
	var reqs []*p2p.Request
	for r, c := range w.comms {
		reqs = append(reqs, c.Isend(1-r, p2p.Bytes(message(uint64(r), n))))
	}
	for r, c := range w.comms {
		reqs = append(reqs, c.Irecv(1-r, p2p.Bytes(got[r])))
	}
	for i, r := range reqs {
		w.want(r, nil, "request %d", i)
	}
	for r := range w.comms {
		if !bytes.Equal(got[r], message(uint64(1-r), n)) {
			w.Errorf("bytes to rank %d arrived changed", r)
		}
	}
}

// A send that finds no receive yet must not hold up the other direction, whatever its size.
func testIndependent(w *world) {
	big, small := message(1, 4<<20), message(2, 10)
	waiting := w.comms[0].Isend(1, p2p.Bytes(big))
	got := make([]byte, len(small))
	recv := w.comms[0].Irecv(1, p2p.Bytes(got))
	if err := p2p.Send(w.ctx, w.comms[1], 0, p2p.Bytes(small)); err != nil {
		w.Fatalf("send while the other direction waits for a receive: %v", err)
	}
	w.want(recv, nil, "receive")
	w.want(w.comms[1].Irecv(0, p2p.Bytes(make([]byte, len(big)))), nil, "late receive")
	w.want(waiting, nil, "send that waited")
	if !bytes.Equal(got, small) {
		w.Error("bytes arrived changed")
	}
}

func testManyOutstanding(w *world) {
	const count = 3000
	var recvs, sends []*p2p.Request
	got := make([]byte, count)
	for i := range count {
		recvs = append(recvs, w.comms[1].Irecv(0, p2p.Bytes(got[i:i+1])))
	}
	for i := range count {
		sends = append(sends, w.comms[0].Isend(1, p2p.Bytes([]byte{byte(i % 251)})))
	}
	for i := range count {
		w.want(recvs[i], nil, "receive %d", i)
		w.want(sends[i], nil, "send %d", i)
		if got[i] != byte(i%251) {
			w.Fatalf("receive %d took the message of another", i)
		}
	}
}

func testConcurrentCallers(w *world) {
	var wg sync.WaitGroup
	for range 4 {
		for r, c := range w.comms {
			wg.Go(func() {
				for range 200 {
					w.want(c.Isend(1-r, p2p.Bytes(make([]byte, 100))), nil, "send")
				}
			})
			wg.Go(func() {
				for range 200 {
					w.want(c.Irecv(1-r, p2p.Bytes(make([]byte, 100))), nil, "receive")
				}
			})
		}
	}
	wg.Wait()
}

func testAllPairs(w *world) {
	n := len(w.comms)
	var wg sync.WaitGroup
	for r, c := range w.comms {
		wg.Go(func() {
			got := make([][]byte, n)
			var reqs []*p2p.Request
			for peer := range n {
				if peer != r {
					got[peer] = make([]byte, 1000)
					reqs = append(reqs, c.Isend(peer, p2p.Bytes(message(uint64(r*n+peer), 1000))),
						c.Irecv(peer, p2p.Bytes(got[peer])))
				}
			}
			for _, req := range reqs {
				w.want(req, nil, "transfer of rank %d", r)
			}
			for peer := range n {
				if peer != r && !bytes.Equal(got[peer], message(uint64(peer*n+r), 1000)) {
					w.Errorf("rank %d took other bytes from %d", r, peer)
				}
			}
		})
	}
	wg.Wait()
}

func testWrongRank(w *world) {
	c := w.comms[1]
	for _, peer := range []int{-1, 1, 2, 1 << 40} {
		w.want(c.Isend(peer, p2p.Bytes(nil)), p2p.ErrRank, "send to %d", peer)
		w.want(c.Irecv(peer, p2p.Bytes(nil)), p2p.ErrRank, "receive from %d", peer)
	}
	recv := w.comms[0].Irecv(1, p2p.Bytes(make([]byte, 5)))
	w.want(c.Isend(0, p2p.Bytes(make([]byte, 5))), nil, "send after a wrong rank")
	w.want(recv, nil, "receive after a wrong rank")
}
