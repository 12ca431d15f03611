package p2p_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

// better makes a Comm for an upgrade. Each counts the messages sent.
func better() [2]*counted {
	var ends [2]*counted
	for rank, c := range inproc.World(2) {
		ends[rank] = &counted{runner: running(c)}
	}
	return ends
}

type counted struct {
	*runner
	sends int
}

func (c *counted) Isend(peer int, b p2p.Buffer) *p2p.Request {
	c.sends++ // by one goroutine
	return c.runner.Isend(peer, b)
}

func (c *counted) isClosed() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

func TestUpgrade(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprintf("idle=%v", idle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1000}}})
				fast := better()
				if idle {
					for rank := range 2 {
						r.ends[rank].Upgrade(1, fast[rank])
					}
					synctest.Wait()
				}
				switchInMidStream(r, fast, idle)
				r.both(6, 5000)
				for rank, end := range r.ends {
					if s := end.Stats(); s.Switches != 1 || s.Resets != 0 || s.Again != 0 || s.Epoch != 1 {
						t.Errorf("rank %d: %+v", rank, s)
					}
					if fast[rank].sends == 0 || fast[rank].isClosed() {
						t.Errorf("rank %d sent %d messages over the better comm", rank, fast[rank].sends)
					}
				}
				_ = fast[1].Close()
				r.both(7, 100_000)
				for rank, end := range r.ends {
					if s := end.Stats(); s.Resets != 1 || s.Epoch != 2 || !fast[rank].isClosed() {
						t.Errorf("after it died, rank %d: %+v", rank, s)
					}
				}
			})
		})
	}
}

// switchInMidStream moves bytes both ways, and offers the better Comm in the middle if that was not done.
func switchInMidStream(r *rig, fast [2]*counted, done bool) {
	const size = 300_000
	var ins [2]*p2p.Incoming
	var got [2][]byte
	for rank, end := range r.ends {
		end.Send(1, noise(uint64(rank), size))
	}
	for rank, end := range r.ends {
		ins[rank] = end.ReceiveInto(1, p2p.Push, &tap{size, func(off int, p []byte) error {
			if !done && len(got[rank]) <= size/2 && size/2 < len(got[rank])+len(p) {
				end.Upgrade(1, fast[rank])
			}
			got[rank] = append(got[rank], p...)
			return nil
		}})
	}
	for rank := range 2 {
		r.wait(ins[rank].Done())
		if ins[rank].Err() != nil || !bytes.Equal(got[rank], noise(uint64(1-rank), size)) {
			r.Errorf("rank %d: %v", rank, ins[rank].Err())
		}
	}
}

func TestUpgradeOfOneSideIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		first, second, third := better(), better(), better()
		r.both(1, 5000)
		r.ends[0].Upgrade(1, first[0])
		r.ends[1].CannotUpgrade(1)
		synctest.Wait()
		early := better()
		r.ends[0].Upgrade(1, early[0]) // of an attempt that the other side has given up
		synctest.Wait()
		if !early[0].isClosed() {
			t.Error("it is kept")
		}
		r.ends[1].Upgrade(2, second[1]) // late: the other side has gone on
		r.ends[0].Upgrade(3, third[0])
		synctest.Wait()
		r.both(2, 5000)
		for i, c := range []*counted{first[0], second[1], third[0]} {
			if c.sends > 0 || c.isClosed() != (i == 0) {
				t.Errorf("comm %d of one side only: %d sends, closed %v", i, c.sends, c.isClosed())
			}
		}
		r.ends[1].Upgrade(3, third[1])
		synctest.Wait()
		r.both(3, 5000)
		if !second[1].isClosed() || third[0].sends == 0 {
			t.Error("the third attempt, which both sides made, is not in use")
		}
		last := better()
		for rank := range 2 {
			r.ends[rank].Upgrade(4, last[rank])
		}
		enough := errors.New("enough")
		r.stop(enough)
		for _, done := range r.done {
			if err := <-done; !errors.Is(err, enough) {
				t.Errorf("run: %v", err)
			}
		}
		r.ends[0].Upgrade(5, first[0]) // too late
		synctest.Wait()
		for _, c := range []*counted{third[0], third[1], last[0], last[1]} {
			if !c.isClosed() {
				t.Error("a comm outlives its transfer")
			}
		}
	})
}

func TestUpgradeThatDiesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.both(1, 5000)
		fast := better()
		_ = fast[1].Close()
		for rank := range 2 {
			r.ends[rank].Upgrade(1, fast[rank])
		}
		synctest.Wait()
		r.both(2, 5000)
		if s := r.ends[0].Stats(); s.Switches != 1 || s.Resets != 1 {
			t.Errorf("%+v", s)
		}
	})
}
