package p2p_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p"
)

// TestTransfersAreTraced ties every send to its receive, also over a Comm that dies on the way; what was given up has a span and no flow.
func TestTransfersAreTraced(t *testing.T) {
	for name, cfg := range map[string]rigConfig{
		"plain":   {policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 64}}},
		"unasked": {policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 64}}, sure: true, calm: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for rank := range cfg.trace {
					cfg.trace[rank] = trace.New(trace.Config{Process: "side", ID: rank})
					cfg.trace[rank].Start()
				}
				r := newRig(t, cfg)
				sizes := []int{1000, 64, 5000, 1}
				for i, n := range sizes {
					r.both(uint64(10*i), n)
				}
				r.cut(0)
				r.both(100, 3000)
				given := r.ends[0].Send(200, make([]byte, 5000))
				<-time.After(time.Second)
				given.Cancel(errors.New("nobody wants it"))
				r.wait(given.Done())
				synctest.Wait()

				m := trace.Merge(cfg.trace[0].Trace(), cfg.trace[1].Trace())
				if err := trace.Check(&m.Trace, true); err != nil {
					t.Error(err)
				}
				if m.Unmatched > 0 {
					t.Errorf("%d flows have one end", m.Unmatched)
				}
				bytes := int64(3000)
				for _, n := range sizes {
					bytes += int64(n)
				}
				want := map[string]trace.Row{"send": {Count: 2*(len(sizes)+1) + 1, Bytes: 2 * bytes}, "receive": {Count: 2 * (len(sizes) + 1), Bytes: 2 * bytes}}
				for _, row := range m.Summarize().Rows {
					if w := want[row.Name]; row.Category != "transfer" || row.Count != w.Count || row.Bytes != w.Bytes {
						t.Errorf("%s/%s: %d spans, %d bytes, want %d, %d", row.Category, row.Name, row.Count, row.Bytes, w.Count, w.Bytes)
					}
				}
			})
		})
	}
}
