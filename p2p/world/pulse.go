package world

import (
	"context"
	"sync/atomic"
	"time"
)

// pulse finds out whether this process has stood still: stopped by a signal, say, or together with its machine.
type pulse struct {
	last    atomic.Int64 // when it was felt, in nanoseconds since began; 0: never
	longest atomic.Int64
	woke    atomic.Int64 // after it had stood still for more than bound
	bound   time.Duration
	began   time.Time
}

func (p *pulse) run(ctx context.Context, every time.Duration) {
	p.last.Store(0) // nobody has felt it before
	beat := time.NewTicker(every)
	defer beat.Stop()
	for {
		p.feel()
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

// feel notes that the process lives, and returns the longest time in which it did not.
func (p *pulse) feel() time.Duration {
	now := max(int64(time.Since(p.began)), 1)
	if last := p.last.Swap(now); last > 0 {
		if now-last > int64(p.bound) {
			p.woke.Store(now)
		}
		for gap := now - last; ; {
			if was := p.longest.Load(); gap <= was || p.longest.CompareAndSwap(was, gap) {
				break
			}
		}
	}
	return time.Duration(p.longest.Load())
}

// justWoke says whether this process has stood still until a moment ago: what it has not heard means nothing.
func (p *pulse) justWoke() bool {
	if p.last.Load() == 0 {
		return false
	}
	p.feel()
	woke := p.woke.Load()
	return woke > 0 && time.Since(p.began)-time.Duration(woke) < p.bound
}

// Stood is the longest time since Run for which this process has not run at all, but for a heartbeat: more than [Config.Suspect], and others have
// taken it for dead, whatever it thinks of them.
func (w *World) Stood() time.Duration {
	if w.pulse.last.Load() == 0 {
		return 0
	}
	return w.pulse.feel()
}
