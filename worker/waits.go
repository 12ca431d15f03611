package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hcclps/ps/wire"
)

// waits is what the worker is waiting for right now.
type waits struct {
	mu   sync.Mutex
	open []*wait
}

type wait struct {
	mu    sync.Mutex
	op    string
	whom  string
	addr  string // where whom is; "": whom says it
	since time.Time
}

func (w *wait) set(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addr = addr
}

func (ws *waits) begin(op, whom string) *wait {
	w := &wait{op: op, whom: whom, since: time.Now()}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.open = append(ws.open, w)
	return w
}

func (ws *waits) end(w *wait) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.open = slices.DeleteFunc(ws.open, func(o *wait) bool { return o == w })
}

// Waiting says what the worker waits for, from whom and since when. Workers
// that a shard waits for are shown by `ps-server status --waiting`. It may be
// called at any time.
func (c *Client) Waiting() []wire.Wait {
	ws := &c.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var out []wire.Wait
	for _, w := range ws.open {
		w.mu.Lock()
		whom := w.whom
		if w.addr != "" {
			whom += " at " + w.addr
		}
		out = append(out, wire.Wait{Who: c.cfg.Worker, What: w.op, For: []string{whom}, Since: time.Since(w.since)})
		w.mu.Unlock()
	}
	return out
}

// explainTime bounds the question after a deadline.
const explainTime = time.Second

// explain adds to the error of a deadline whom the group waits for, as far as
// one of its replicas still answers.
func (c *cluster) explain(ctx context.Context, group uint32, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	for _, addr := range c.layout.Addrs(group) {
		st, asked := ServerStatus(ctx, c.link, addr, true)
		if asked != nil {
			continue // the deadline's own error says what is wrong with it
		}
		missing := map[string]bool{}
		for _, g := range st.Groups {
			for _, j := range g.Jobs {
				if g.Group != group || j.Job != c.job {
					continue
				}
				for _, w := range j.Waiting {
					for _, who := range w.For {
						missing[who] = true
					}
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%w; %s at %s waits for %s", err, groupName(group), addr, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
		}
	}
	return err
}
