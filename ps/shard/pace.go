package shard

import (
	"context"
	"time"
)

// pace lets so many bytes a second through; 0: all. While hurry says so, all.
type pace struct {
	rate  int64
	hurry func() bool
	next  time.Time // when all that was let through is worth its time
}

const (
	paceSlack = 10 * time.Millisecond  // shorter waits are put off
	paceBurst = 100 * time.Millisecond // of idle time that may be caught up
	paceLook  = 200 * time.Millisecond // how long it waits before it asks again whether to hurry
)

// wait ends when n bytes may go, or with ctx.
func (p *pace) wait(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return context.Cause(ctx)
	}
	if early := time.Now().Add(-paceBurst); p.next.Before(early) {
		p.next = early
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	for {
		ahead := time.Until(p.next)
		if ahead < paceSlack {
			return context.Cause(ctx)
		}
		if p.hurry() {
			p.next = time.Time{}
			return context.Cause(ctx)
		}
		t := time.NewTimer(min(ahead, paceLook))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}
