package tcp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

// A short message is on the wire at once, and waits at the other side for its receive, which need not be announced.
func TestShortMessagesGoAtOnce(t *testing.T) {
	against(t, func(t *half) {
		send := t.c.Isend(1, p2p.Bytes([]byte("hello")))
		if got := expect(t.T, t.peer, kindData, 5, 0); string(got) != "hello" {
			t.Errorf("sent %q", got)
		}
		synctest.Wait()
		if send.Ended() {
			t.Error("the send completed before the peer took it")
		}
		_, _ = t.peer.Write(control(kindDone, 1, 0, 0))
		if err := send.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		_, _ = t.peer.Write(append(early(1, 0, "there"), early(1, 1, "")...))
		synctest.Wait()
		got := make([]byte, 5)
		if r := t.c.Irecv(1, p2p.Bytes(got)); !r.Ended() || string(got) != "there" {
			t.Errorf("received %q", got)
		}
		expect(t.T, t.peer, kindDone, 0, 0)
		if r := t.c.Irecv(1, p2p.Bytes(nil)); !r.Ended() {
			t.Error("the empty message was not there")
		}
		expect(t.T, t.peer, kindDone, 0, 1)
		t.c.Irecv(1, p2p.Bytes(got))
		expect(t.T, t.peer, kindReady, 5, 2) // of the next one, of which nothing came
	})
}

// A receive may be posted while its message is being read aside.
func TestReceivePostedInTheMiddle(t *testing.T) {
	against(t, func(t *half) {
		frame := early(1, 0, "message")
		_, _ = t.peer.Write(frame[:headerSize+3])
		synctest.Wait()
		got := make([]byte, 7)
		recv := t.c.Irecv(1, p2p.Bytes(got))
		synctest.Wait()
		if recv.Ended() {
			t.Error("complete before all was there")
		}
		_, _ = t.peer.Write(frame[headerSize+3:])
		if err := recv.Wait(t.Context()); err != nil || string(got) != "message" {
			t.Errorf("received %q: %v", got, err)
		}
		expect(t.T, t.peer, kindDone, 0, 0)
	})
}

// The ready of a message that is on its way says nothing new, and one of a later message may come without it.
func TestReadyOfWhatIsOnItsWay(t *testing.T) {
	against(t, func(t *half) {
		long := make([]byte, maxEager+1)
		var sends []*p2p.Request
		for _, b := range [][]byte{[]byte("a"), []byte("b"), long, []byte("c")} {
			sends = append(sends, t.c.Isend(1, p2p.Bytes(b)))
		}
		expect(t.T, t.peer, kindData, 1, 0)
		expect(t.T, t.peer, kindData, 1, 1)
		_, _ = t.peer.Write(append(control(kindReady, 1, 0, 1), control(kindReady, 1, 2, uint64(len(long)))...))
		expect(t.T, t.peer, kindData, uint64(len(long)), 2)
		expect(t.T, t.peer, kindData, 1, 3)
		_, _ = t.peer.Write(control(kindDone, 1, 3, 0))
		for i, r := range sends {
			if err := r.Wait(t.Context()); err != nil {
				t.Errorf("send %d: %v", i, err)
			}
		}
		if t.c.lent != (credit{}) {
			t.Errorf("%+v is still lent", t.c.lent)
		}
	})
}

// A long message cannot be taken before its receive is announced, nor may its announcement be left out.
func TestLongMessagesAreAnnounced(t *testing.T) {
	for name, frame := range map[string][]byte{"done": control(kindDone, 1, 0, 0), "ready": control(kindReady, 1, 1, 1)} {
		against(t, func(t *half) {
			t.c.Isend(1, p2p.Bytes(make([]byte, maxEager+1)))
			t.c.Isend(1, p2p.Bytes(make([]byte, 1)))
			_, _ = t.peer.Write(frame)
			if err := <-t.ended; !errors.Is(err, p2p.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// What went early is all of its message.
func TestNothingFollowsAnEarlyMessage(t *testing.T) {
	for name, again := range map[string][]byte{"data": data(1, 1, 0, "good"), "early data": early(1, 1, "good")} {
		against(t, func(t *half) {
			t.c.Irecv(1, p2p.Bytes(make([]byte, 4)))
			t.c.Irecv(1, p2p.Bytes(make([]byte, 4)))
			expect(t.T, t.peer, kindReady, 4, 0)
			expect(t.T, t.peer, kindReady, 4, 1)
			_, _ = t.peer.Write(append(early(1, 1, "good"), again...))
			if err := <-t.ended; !errors.Is(err, p2p.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// No more goes early than the other side keeps; what it has taken makes room.
func TestNoMoreGoesEarlyThanIsKept(t *testing.T) {
	for _, size := range []int{0, 1, 1000, maxEager} {
		against(t, func(t *half) {
			most := maxEagerMessages
			if size > 0 {
				most = min(most, maxEagerBytes/size)
			}
			for range 2 * most {
				t.c.Isend(1, p2p.Bytes(make([]byte, size)))
			}
			for i := range most {
				expect(t.T, t.peer, kindData, uint64(size), uint64(i))
			}
			synctest.Wait()
			t.c.mu.Lock()
			waiting := t.c.sends.len() - t.c.issued
			t.c.mu.Unlock()
			if waiting != most {
				t.Errorf("of %d messages of %d bytes %d wait, want %d", 2*most, size, waiting, most)
			}
			_, _ = t.peer.Write(control(kindDone, 1, uint64(most/2-1), 0))
			for i := range most / 2 {
				expect(t.T, t.peer, kindData, uint64(size), uint64(most+i))
			}
		})
	}
}

// Whichever comes first, a message and a receive that differ in length end both sides, which say so, and what went before is well.
func TestEarlyMessageOfAnotherLength(t *testing.T) {
	for _, first := range []string{"send", "receive"} {
		synctest.Test(t, func(t *testing.T) {
			var running sync.WaitGroup
			comms := both(t, &running, 0)
			good := make([]byte, 2)
			before := []*p2p.Request{comms[0].Isend(1, p2p.Bytes([]byte("ok"))), comms[1].Irecv(0, p2p.Bytes(good))}
			synctest.Wait()
			var send, recv *p2p.Request
			if first == "send" {
				send = comms[0].Isend(1, p2p.Bytes(make([]byte, 9)))
				synctest.Wait()
			}
			recv = comms[1].Irecv(0, p2p.Bytes(make([]byte, 7)))
			if first == "receive" {
				comms[1].mu.Lock() // the message crosses the ready
				send = comms[0].Isend(1, p2p.Bytes(make([]byte, 9)))
				comms[1].mu.Unlock()
			}
			for i, r := range before {
				if err := r.Wait(t.Context()); err != nil {
					t.Errorf("%s first: request %d before: %v", first, i, err)
				}
			}
			for _, r := range []*p2p.Request{send, recv} {
				if err := r.Wait(t.Context()); !errors.Is(err, p2p.ErrLength) || !strings.Contains(err.Error(), "9 bytes sent, 7 bytes to receive") {
					t.Errorf("%s first: %v", first, err)
				}
			}
			running.Wait()
		})
	}
}

// both is a pair in one process.
func both(t *testing.T, running *sync.WaitGroup, room int) [2]*Comm {
	t.Helper()
	a, b := inproc.Pipe(room)
	c, d := inproc.Pipe(room)
	comms := [2]*Comm{Pair([]net.Conn{a, c}, 0), Pair([]net.Conn{b, d}, 1)}
	for _, comm := range comms {
		running.Go(func() { _ = comm.Run(t.Context()) })
	}
	return comms
}

// Messages of any length in both directions, posted in any order of the two sides, arrive as they are; and nothing stays lent or kept.
func TestEarlyAndLateInAnyOrder(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			var running sync.WaitGroup
			comms := both(t, &running, 4<<10)
			var sides sync.WaitGroup
			for dir := range comms {
				rng := rand.New(rand.NewPCG(seed, uint64(dir)))
				var sent [][]byte
				for range 60 {
					b := make([]byte, []int{0, 1, rng.IntN(300), rng.IntN(maxEager), maxEager, maxEager + 1, rng.IntN(400 << 10)}[rng.IntN(7)])
					for i := range b {
						b[i] = byte(i>>8 ^ i*(len(sent)+1))
					}
					sent = append(sent, b)
				}
				pause := [2]uint64{rng.Uint64(), rng.Uint64()}
				sides.Go(func() {
					post(t, pause[0], len(sent), func(i int) *p2p.Request { return comms[dir].Isend(1-dir, p2p.Bytes(sent[i])) })
				})
				sides.Go(func() {
					got := make([][]byte, len(sent))
					post(t, pause[1], len(sent), func(i int) *p2p.Request {
						got[i] = make([]byte, len(sent[i]))
						return comms[1-dir].Irecv(dir, p2p.Bytes(got[i]))
					})
					for i := range got {
						if !bytes.Equal(got[i], sent[i]) {
							t.Errorf("seed %d: message %d of %d bytes is another one", seed, i, len(sent[i]))
						}
					}
				})
			}
			sides.Wait()
			synctest.Wait()
			for _, c := range comms {
				if c.lent != (credit{}) || c.kept != (credit{}) || c.asides.len() > 0 {
					t.Errorf("seed %d: lent %+v, kept %+v, aside %d at the end", seed, c.lent, c.kept, c.asides.len())
				}
				_ = c.Close()
			}
			running.Wait()
		})
	}
}

// post begins n requests and waits for them all; now and then it waits for those begun so far, or lets others go on.
func post(t *testing.T, seed uint64, n int, begin func(i int) *p2p.Request) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	often := 1 + rng.IntN(20)
	var open []*p2p.Request
	for i := range n {
		open = append(open, begin(i))
		if rng.IntN(often) > 0 && i < n-1 {
			continue
		}
		for _, r := range open {
			if err := r.Wait(t.Context()); err != nil {
				t.Errorf("request before %d: %v", i, err)
				return
			}
		}
		open = open[:0]
	}
}
