package shm

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
)

// running makes two ranks that run until the test is over.
func running(t *testing.T) [2]*Comm {
	t.Helper()
	comms := pair(t)
	var ran sync.WaitGroup
	for _, c := range comms {
		ran.Go(func() { _ = c.Run(t.Context()) })
	}
	t.Cleanup(func() {
		_ = comms[0].Close()
		ran.Wait()
	})
	return comms
}

// heatUp lets rank 1 wait for one message after the other, until it is hot.
func heatUp(t *testing.T, comms [2]*Comm) {
	t.Helper()
	e := &comms[1].engine
	for range 1_000_000 {
		recv := comms[1].Irecv(0, p2p.Bytes(make([]byte, 8)))
		send := comms[0].Isend(1, p2p.Bytes(make([]byte, 8)))
		if err := errors.Join(recv.Wait(t.Context()), send.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		e.Lock()
		hot := e.heat.hot
		e.Unlock()
		comms[1].work(true) // for one who found the engine taken
		if hot {
			return
		}
	}
	t.Fatal("it does not become hot")
}

// When drivers have come one after the other and then no more, bytes move all the same, though nobody waits and nobody has asked for rings.
func TestDriversStop(t *testing.T) {
	comms := running(t)
	for round := range 3 {
		heatUp(t, comms)
		want := bytes.Repeat([]byte{byte(round + 1)}, 4<<20)
		got := make([]byte, len(want))
		recv := comms[1].Irecv(0, p2p.Bytes(got))
		send := comms[0].Isend(1, p2p.Bytes(want))
		limit := time.After(time.Minute)
		look := time.NewTicker(100 * time.Microsecond)
		for !recv.Ended() { // not Done or Wait, which help
			select {
			case <-look.C:
			case <-limit:
				t.Fatal("bytes do not move")
			}
		}
		look.Stop()
		if err := send.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Error("bytes arrived changed")
		}
	}
}

func TestHeat(t *testing.T) {
	var h heat
	for i := 1; i < hotAfter; i++ {
		if h.count(true) || h.hot {
			t.Fatalf("hot after %d", i)
		}
	}
	h.count(false)
	for range hotAfter - 1 {
		h.count(true)
	}
	if h.hot || !h.count(true) || !h.hot || h.count(true) {
		t.Fatal("a row of drivers is told of once, when it is long enough")
	}
	if !h.idle() {
		t.Error("cooled though drivers came")
	}
	h.count(true)
	if !h.idle() || h.idle() || h.hot {
		t.Error("it cools when no driver came between two looks")
	}
}

// Waits in vain are given up, tried at times, and taken up again when they have success.
func TestHope(t *testing.T) {
	var p patience
	wait := func() (looked bool) { // in vain
		p.begin()
		for p.pause() {
			looked = true
		}
		return looked
	}
	tried := 0
	for range 10 * tryEvery {
		if wait() {
			tried++
		}
	}
	if tried < 10 || tried > 10+fullHope {
		t.Errorf("%d of %d waits in vain were tried", tried, 10*tryEvery)
	}
	for range fullHope * tryEvery { // something comes at once, if one looks
		p.begin()
		if p.pause() {
			p.moved()
		}
	}
	p.begin()
	if !p.pause() {
		t.Error("without hope though waits have success")
	}
}

// The connection carries rings and nothing else.
func TestStrangeRing(t *testing.T) {
	comms := running(t)
	recv := comms[1].Irecv(0, p2p.Bytes(make([]byte, 8)))
	if _, err := comms[0].conn.Write([]byte{ringByte, ringByte + 1}); err != nil {
		t.Fatal(err)
	}
	if err := recv.Wait(t.Context()); !errors.Is(err, p2p.ErrPeer) {
		t.Error(err)
	}
}
