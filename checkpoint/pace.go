package checkpoint

import (
	"context"
	"time"
)

// pacer lets through so many bytes a second on average; 0 is no limit.
type pacer struct {
	rate int64
	next time.Time // when all that was let through will have been worth its time
}

const (
	slack = 10 * time.Millisecond  // shorter waits are put off
	burst = 100 * time.Millisecond // of idle time that may be caught up
)

// wait ends when n bytes may go, or with ctx.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return context.Cause(ctx)
	}
	now := time.Now()
	if early := now.Add(-burst); p.next.Before(early) {
		p.next = early
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	ahead := p.next.Sub(now)
	if ahead < slack {
		return context.Cause(ctx)
	}
	t := time.NewTimer(ahead)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
