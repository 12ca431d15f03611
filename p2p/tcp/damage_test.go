package tcp

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

// damaged flips one bit of what is read.
type damaged struct {
	net.Conn
	at   int // bytes until then
	bit  int
	done bool
}

func (c *damaged) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.done && c.at >= 0 && c.at < n {
		b[c.at] ^= 1 << c.bit
		c.done = true
	}
	c.at -= n
	return n, err
}

// One bit of a stream of messages over three stripes is flipped, anywhere: what is taken is right, and whoever misses a message
// has an error.
func TestNoDamageIsTaken(t *testing.T) {
	damages := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			var ends [2][]net.Conn
			var all []*damaged
			for range 3 {
				a, b := inproc.Pipe(16 << 10)
				d := &damaged{Conn: b, done: true}
				ends[0], ends[1] = append(ends[0], a), append(ends[1], d)
				all = append(all, d)
			}
			victim := all[rng.IntN(len(all))]
			victim.at, victim.bit, victim.done = rng.IntN(1<<20), rng.IntN(8), false
			var comms [2]*Comm
			var running sync.WaitGroup
			for r := range comms {
				comms[r] = Pair(ends[r], r)
				running.Go(func() { _ = comms[r].Run(t.Context()) })
			}
			var sent, got [][]byte
			var recvs []*p2p.Request
			for i := range 12 {
				out := make([]byte, rng.IntN(600<<10))
				for j := range out {
					out[j] = byte(i + j*j>>3)
				}
				sent, got = append(sent, out), append(got, make([]byte, len(out)))
				comms[0].Isend(1, p2p.Bytes(out))
				recvs = append(recvs, comms[1].Irecv(0, p2p.Bytes(got[i])))
			}
			failed := false
			for i, r := range recvs {
				if err := r.Wait(t.Context()); err != nil {
					failed = true
				} else if !bytes.Equal(got[i], sent[i]) {
					t.Errorf("seed %d: message %d is damaged and was taken", seed, i)
				}
			}
			_, _ = comms[0].Close(), comms[1].Close()
			running.Wait()
			if victim.done {
				damages++
			}
			if victim.done != failed {
				t.Errorf("seed %d: damaged %v, failed %v", seed, victim.done, failed)
			}
		})
	}
	if damages < 20 {
		t.Errorf("%d damages in all: the test tests little", damages)
	}
}
