package p2ptest

import (
	"context"
	"testing"
	"time"

	"hcclps/p2p"
)

// TestLarge moves one message of n bytes in each direction, one after the other, with contents by formula. It takes 2n bytes of memory.
func TestLarge(t *testing.T, open func(t *testing.T, n int) []p2p.Comm, n int) {
	t.Helper()
	warm(t, open)
	before := hold(t)
	t.Run("Large", func(t *testing.T) {
		w := start(t, open, 2)
		ctx, cancel := context.WithTimeout(t.Context(), patience+time.Duration(n)*20) // 50 MB/s
		defer cancel()
		w.ctx = ctx
		sent, got := make([]byte, n), make([]byte, n)
		for from := range 2 {
			p := Pattern{uint64(from), n}
			_ = p.Fill(0, sent)
			recv := w.comms[1-from].Irecv(from, p2p.Bytes(got))
			w.want(w.comms[from].Isend(1-from, p2p.Bytes(sent)), nil, "send of %d bytes", n)
			w.want(recv, nil, "receive of %d bytes", n)
			if err := p.Take(0, got); err != nil {
				w.Errorf("from rank %d: %v", from, err)
			}
		}
	})
	before.wantLeft(t)
}
