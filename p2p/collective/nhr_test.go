package collective_test

import (
	"slices"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// weighing counts the bytes of the longer messages that a rank sends to each other.
type weighing struct {
	p2p.Comm
	sent []int
}

func (w *weighing) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if b.Len() >= 1<<10 { // no fingerprint
		w.sent[peer] += b.Len()
	}
	return w.Comm.Isend(peer, b)
}

// Of the parts that a rank sends most go to the nearest, in as few steps as there are powers of two.
func TestNHRSendsMostToTheNearest(t *testing.T) {
	const part = 4 << 10
	for ranks, want := range map[int][]int{ // parts for the rank so far on
		2: {0, 1},
		3: {0, 1, 1},
		6: {0, 3, 1, 0, 1},
		7: {0, 3, 2, 0, 1},
		8: {0, 4, 2, 0, 1},
	} {
		for _, op := range []collective.Op{collective.AllGather, collective.ReduceScatter} {
			comms := inproc.World(ranks)
			scales := make([]*weighing, ranks)
			for r := range comms {
				scales[r] = &weighing{comms[r], make([]int, ranks)}
				comms[r] = scales[r]
			}
			w := newWorldOver(t, comms, func(_ int, c *collective.Config) {
				c.Algorithms = collective.Algorithms{op: {Level1: collective.NHR}}
			})
			err := w.each(func(_ int, g *collective.Group) error {
				whole, one := p2p.Bytes(make([]byte, ranks*part)), p2p.Bytes(make([]byte, part))
				if op == collective.AllGather {
					return g.AllGather(one, whole, p2p.Float32).Wait(t.Context())
				}
				return g.ReduceScatter(whole, one, p2p.Float32, collective.Sum).Wait(t.Context())
			})
			if err != nil {
				t.Fatal(err)
			}
			for r, s := range scales {
				for on := range ranks {
					to := (r + on) % ranks
					if op == collective.ReduceScatter {
						to = (r - on + ranks) % ranks
					}
					parts := slices.Concat(want, make([]int, ranks))[on]
					if s.sent[to] != parts*part {
						t.Errorf("%v of %d ranks: rank %d sends %d bytes to rank %d, want %d parts of %d", op, ranks, r, s.sent[to], to, parts, part)
					}
				}
			}
		}
	}
}
