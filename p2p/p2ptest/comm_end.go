package p2ptest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"hcclps/p2p"
)

// The part of the suite in which a Comm ends.

func testWrongLength(w *world, sent, posted int) {
	before := w.comms[1].Irecv(0, p2p.Bytes(make([]byte, 10)))
	w.want(w.comms[0].Isend(1, p2p.Bytes(make([]byte, 10))), nil, "send")
	w.want(before, nil, "receive")
	recv := w.comms[1].Irecv(0, p2p.Bytes(make([]byte, posted)))
	send := w.comms[0].Isend(1, p2p.Bytes(make([]byte, sent)))
	w.want(recv, p2p.ErrLength, "receive of %d bytes for %d", posted, sent)
	if err := send.Wait(w.ctx); !errors.Is(err, p2p.ErrLength) && !errors.Is(err, p2p.ErrPeer) {
		w.Errorf("send of %d bytes to a receive of %d: %v", sent, posted, err)
	}
	w.wantDead(1)
	w.wantDead(0)
}

func testContext(w *world) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	reason := errors.New("changed my mind")
	recv := w.comms[0].Irecv(1, p2p.Bytes(make([]byte, 10)))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := recv.Wait(ctx); !errors.Is(err, reason) {
			w.Errorf("wait whose context ended: %v", err)
		}
	})
	cancel(reason)
	wg.Wait()
	select {
	case <-recv.Done():
		w.Error("a transfer ended with the context of one who waited for it")
	default:
	}
	if err := w.comms[0].Close(); err != nil {
		w.Error(err)
	}
	w.want(recv, p2p.ErrClosed, "receive after close")
	<-recv.Done()
	ended, stop := context.WithCancel(w.ctx)
	stop()
	if err := recv.Wait(ended); !errors.Is(err, p2p.ErrClosed) {
		w.Errorf("wait for a complete request with an ended context: %v", err)
	}
}

func testClose(w *world) {
	c := w.comms[0]
	send := c.Isend(1, p2p.Bytes(make([]byte, 1<<20)))
	recv := c.Irecv(1, p2p.Bytes(make([]byte, 10)))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := c.Close(); err != nil {
				w.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	w.want(send, p2p.ErrClosed, "pending send")
	w.want(recv, p2p.ErrClosed, "pending receive")
	w.wantDead(0)
}

// Who has completed all its transfers may close at once: the peer's side of them must not fail.
func testCloseAfterLast(w *world) {
	send := w.comms[0].Isend(1, p2p.Bytes(make([]byte, 100_000)))
	w.want(w.comms[1].Irecv(0, p2p.Bytes(make([]byte, 100_000))), nil, "receive")
	if err := w.comms[1].Close(); err != nil {
		w.Error(err)
	}
	w.want(send, nil, "send that the peer took before it closed")
}

func testPeerCloses(w *world) {
	recv := w.comms[0].Irecv(1, p2p.Bytes(make([]byte, 10)))
	send := w.comms[0].Isend(1, p2p.Bytes(make([]byte, 10)))
	if err := w.comms[1].Close(); err != nil {
		w.Error(err)
	}
	w.want(recv, p2p.ErrPeer, "receive from a peer that closed")
	w.want(send, p2p.ErrPeer, "send to a peer that closed")
	w.wantDead(0)
}

// testCloseDuringTransfers closes one side in the middle of a stream: everything must end, and what was received well
// must be what was sent.
func testCloseDuringTransfers(w *world) {
	const size, count = 1 << 20, 24
	want := message(9, size)
	var sends, recvs []*p2p.Request
	got := make([][]byte, count)
	for i := range count {
		got[i] = make([]byte, size)
		recvs = append(recvs, w.comms[1].Irecv(0, p2p.Bytes(got[i])))
		sends = append(sends, w.comms[0].Isend(1, p2p.Bytes(want)))
	}
	w.want(recvs[2], nil, "third receive")
	if err := w.comms[0].Close(); err != nil {
		w.Error(err)
	}
	last := w.comms[1].Irecv(0, p2p.Bytes(make([]byte, size)))
	ended := false
	for i := range count {
		err := recvs[i].Wait(w.ctx)
		if w.ctx.Err() != nil {
			w.Fatalf("receive %d hangs", i)
		}
		if ended && err == nil {
			w.Errorf("receive %d completed after one before it failed", i)
		}
		if ended = err != nil; !ended && !bytes.Equal(got[i], want) {
			w.Errorf("receive %d completed with other bytes", i)
		}
		if err := sends[i].Wait(w.ctx); err != nil && !errors.Is(err, p2p.ErrClosed) {
			w.Errorf("send %d at the side that closed: %v", i, err)
		}
		clear(got[i]) // the race detector complains if the Comm still writes
	}
	if err := last.Wait(w.ctx); !errors.Is(err, p2p.ErrPeer) {
		w.Errorf("receive that nobody sends for: %v", err)
	}
}

func testOthersSurvive(w *world) {
	if err := w.comms[2].Close(); err != nil {
		w.Error(err)
	}
	recv := w.comms[1].Irecv(0, p2p.Bytes(make([]byte, 9)))
	w.want(w.comms[0].Isend(1, p2p.Bytes(make([]byte, 9))), nil, "send between two ranks when a third has closed")
	w.want(recv, nil, "receive between two ranks when a third has closed")
	w.want(w.comms[0].Irecv(2, p2p.Bytes(nil)), p2p.ErrPeer, "receive from the rank that closed")
}
