package p2p_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
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
