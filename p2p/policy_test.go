package p2p_test

import (
	"testing"
	"time"

	"hcclps/p2p"
)

func TestMode(t *testing.T) {
	for _, c := range []struct {
		policy p2p.ModePolicy
		bytes  int
		want   p2p.Mode
	}{
		{bytes: 0, want: p2p.Pipelined},
		{bytes: 100 << 20, want: p2p.Pipelined},
		{bytes: 100<<20 + 1, want: p2p.Wide},
		{policy: p2p.ModePolicy{Wide: 20}, bytes: 20, want: p2p.Pipelined},
		{policy: p2p.ModePolicy{Wide: 20}, bytes: 21, want: p2p.Wide},
	} {
		if got := c.policy.Mode(c.bytes); got != c.want {
			t.Errorf("%d bytes: %v, want %v", c.bytes, got, c.want)
		}
	}
}

func TestWindow(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		policy p2p.WindowPolicy
		mode   p2p.Mode
		chunk  int
		rate   float64
		far    time.Duration
		want   int
	}{
		{mode: p2p.Pipelined, chunk: mib, rate: 3e9, far: 100 * time.Microsecond, want: 4},
		{mode: p2p.Pipelined, chunk: mib, rate: 1.25e9, far: 10 * time.Millisecond, want: 18},
		{mode: p2p.Pipelined, chunk: 4 * mib, rate: 100e9, far: time.Second, want: 16}, // by bytes
		{mode: p2p.Pipelined, chunk: mib / 2, rate: 100e9, far: time.Second, want: p2p.MaxWindow},
		{chunk: mib, want: 4},
		{mode: p2p.Pipelined, chunk: 4 * mib, want: 4},
		{mode: p2p.Wide, chunk: mib, want: 16},
		{mode: p2p.Wide, chunk: 4 * mib, want: 16},
		{mode: p2p.Wide, chunk: 16 * mib, want: 4},
		{policy: p2p.WindowPolicy{Bytes: 1}, mode: p2p.Wide, chunk: mib, want: 1},
		{policy: p2p.WindowPolicy{Chunks: 30}, mode: p2p.Wide, chunk: mib, want: 30},
		{policy: p2p.WindowPolicy{Chunks: 1000, Bytes: 1 << 40}, mode: p2p.Pipelined, chunk: 1, want: p2p.MaxWindow},
		{policy: p2p.WindowPolicy{Chunks: 1}, mode: p2p.Pipelined, chunk: 0, want: 1},
	} {
		if got := c.policy.Window(c.mode, c.chunk, c.rate, c.far); got != c.want {
			t.Errorf("%+v, %v, chunks of %d: %d, want %d", c.policy, c.mode, c.chunk, got, c.want)
		}
	}
}

func TestChunk(t *testing.T) {
	const mib = 1 << 20
	var p p2p.ChunkPolicy
	for _, c := range []struct {
		now       int
		bandwidth float64
		latency   time.Duration
		want      int
	}{
		{4 * mib, 5e9, 0, 4 * mib},
		{4 * mib, 0, 0, 4 * mib}, // nothing measured
		{4 * mib, 13e9, 0, 16 * mib},
		{4 * mib, 11e9, 0, 4 * mib}, // not clearly above 10
		{16 * mib, 11e9, 0, 16 * mib},
		{16 * mib, 9e9, 0, 16 * mib}, // not clearly below
		{16 * mib, 7e9, 0, 4 * mib},
		{16 * mib, 1e9, 0, mib},
		{4 * mib, 1.9e9, 0, 4 * mib},
		{4 * mib, 1.5e9, 0, mib},
		{mib, 2.1e9, 0, mib},
		{mib, 2.6e9, 0, 4 * mib},
		{mib, 13e9, 0, 16 * mib},
		{4 * mib, 5e9, 1100 * time.Microsecond, 4 * mib},
		{4 * mib, 5e9, 2 * time.Millisecond, 2 * mib},
		{2 * mib, 5e9, 900 * time.Microsecond, 2 * mib},
		{2 * mib, 5e9, 700 * time.Microsecond, 4 * mib},
		{16 * mib, 20e9, time.Second, 8 * mib},
		{mib, 1e9, time.Second, mib / 2},
		{mib / 2, 1e6, time.Second, mib / 2}, // not below
		{mib / 2, 1e6, 0, mib},
	} {
		if got := p.Target(c.now, c.bandwidth, c.latency); got != c.want {
			t.Errorf("chunks of %d at %.1f GB/s and %v: %d, want %d", c.now, c.bandwidth/1e9, c.latency, got, c.want)
		}
		if again := p.Target(p.Target(c.now, c.bandwidth, c.latency), c.bandwidth, c.latency); c.bandwidth > 0 && again != c.want {
			t.Errorf("chunks of %d at %.1f GB/s and %v do not settle: %d, then %d", c.now, c.bandwidth/1e9, c.latency, c.want, again)
		}
	}
	if p.Initial() != 4*mib {
		t.Errorf("chunks of %d bytes at first", p.Initial())
	}
	fixed := p2p.ChunkPolicy{Fixed: 5000}
	if fixed.Initial() != 5000 || fixed.Target(5000, 1e12, time.Hour) != 5000 {
		t.Error("a fixed size changes")
	}
	if most := (p2p.ChunkPolicy{Fixed: 1 << 40}).Initial(); most != p2p.MaxChunk {
		t.Errorf("chunks of %d bytes", most)
	}
}

func TestRetry(t *testing.T) {
	for _, c := range []struct {
		policy p2p.RetryPolicy
		try    int
		chance float64
		want   time.Duration
		more   bool
	}{
		{try: 0, chance: 0, want: 0, more: true},
		{try: 0, chance: 0.5, want: 50 * time.Millisecond, more: true},
		{try: 1, chance: 0.5, want: 100 * time.Millisecond, more: true},
		{try: 2, chance: 0.5, want: 200 * time.Millisecond, more: true},
		{try: 3, chance: 0.5, want: 400 * time.Millisecond, more: true}, // the last one
		{try: 4, chance: 0.5},
		{policy: p2p.RetryPolicy{Base: time.Second, Tries: 1}, try: 1, chance: 0.25, want: 500 * time.Millisecond, more: true},
		{policy: p2p.RetryPolicy{Base: time.Second, Tries: 1}, try: 2, chance: 0.25},
	} {
		wait, more := c.policy.Wait(c.try, c.chance)
		if wait != c.want || more != c.more {
			t.Errorf("%+v, try %d: %v, %v, want %v, %v", c.policy, c.try, wait, more, c.want, c.more)
		}
	}
}
