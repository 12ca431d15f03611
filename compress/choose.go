package compress

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Link is what a transfer gets: bytes a second and the time until the first one is there.
type Link struct {
	Bandwidth float64
	Latency   time.Duration
}

// Speed is that of a codec: bytes of float32 a second.
type Speed struct {
	Encode, Decode float64
}

// Candidate is a codec that may be chosen, with its speed.
type Candidate struct {
	Codec Codec
	Speed Speed
}

// Estimate is the seconds of a vector of n elements from float32 to float32. Encoding, the link and decoding work on
// different parts at a time where the codec has blocks, so the slowest counts, and a part of pieceLen elements of the
// others; else they follow one another.
func Estimate(n int, link Link, c Candidate) float64 {
	raw, code := 4*float64(n), float64(c.Codec.MaxLen(n))
	stages := []float64{raw / c.Speed.Encode, code / link.Bandwidth, raw / c.Speed.Decode}
	slowest, sum := 0.0, 0.0
	for _, s := range stages {
		slowest, sum = max(slowest, s), sum+s
	}
	if Block(c.Codec) == 0 {
		return link.Latency.Seconds() + sum
	}
	part := min(1, pieceLen/float64(max(n, 1)))
	return link.Latency.Seconds() + slowest + part*(sum-slowest)
}

// Choose is the index of the candidate for vectors of n elements. Candidates go from the most exact to the least; one
// that is less exact must save a tenth of the time, since it costs steps. Of none it is -1.
func Choose(n int, link Link, candidates []Candidate) int {
	best, least := -1, math.Inf(1)
	for i, c := range candidates {
		if t := Estimate(n, link, c); best < 0 || t < 0.9*least {
			best, least = i, t
		}
	}
	return best
}

// Measure times a codec on n elements with a clock, such as the CPU time of a thread: the fastest of some turns.
func Measure(c Codec, n int, clock func() time.Duration) (Speed, error) {
	if n < 1 {
		return Speed{}, fmt.Errorf("measure %s on %d elements: want one at least: %w", c, n, ErrMismatch)
	}
	x, out := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i] = float32((i*7919)%2003-1001) / 1024
	}
	f, err := NewFeedback(c, n)
	if err != nil {
		return Speed{}, err
	}
	const turns = 5
	encode, decode := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	code := make([]byte, 0, c.MaxLen(n))
	for seed := range uint64(turns) {
		began := clock()
		if code, err = f.Append(code[:0], x, seed); err != nil {
			return Speed{}, err
		}
		between := clock()
		if err := c.Decode(out, code, Add); err != nil {
			return Speed{}, err
		}
		encode, decode = min(encode, between-began), min(decode, clock()-between)
	}
	bytes := 4 * float64(n)
	return Speed{bytes / max(encode, 1).Seconds(), bytes / max(decode, 1).Seconds()}, nil
}

// AutoConfig says when Auto is alarmed. Zero fields mean the values named.
type AutoConfig struct {
	// Candidates go from the most exact to the least.
	Candidates []Candidate
	// Alarm is the length of the residual, in lengths of the gradient, over some steps, from which on a codec is too
	// coarse: 10. Constant gradients are as late as that many steps.
	Alarm float64
	// Hold is for how many steps a codec that was too coarse is not tried again, 1000; twice as many each time it is too coarse again.
	Hold int
}

// Auto chooses a codec by the speed of the link and of codecs, among those that have not proved too coarse. It is a
// function of what it is told: workers that must choose alike tell it alike, or one chooses for all. One goroutine uses
// it at a time.
type Auto struct {
	cfg    AutoConfig
	least  int // least exact candidate that is allowed
	hold   int // steps that the next ban lasts
	wait   int // steps until one more is allowed
	seen   int // observations of the present candidates
	smooth float64
}

// NewAuto makes one that allows all candidates.
func NewAuto(cfg AutoConfig) (*Auto, error) {
	if cfg.Alarm == 0 {
		cfg.Alarm = 10
	}
	if cfg.Hold == 0 {
		cfg.Hold = 1000
	}
	var faults []error
	if len(cfg.Candidates) == 0 {
		faults = append(faults, errors.New("no candidates"))
	}
	for _, c := range cfg.Candidates {
		if !(c.Speed.Encode > 0) || !(c.Speed.Decode > 0) {
			faults = append(faults, fmt.Errorf("speed of %s: %v, want above 0", c.Codec, c.Speed))
		}
	}
	if !(cfg.Alarm > 0) || cfg.Hold < 1 {
		faults = append(faults, fmt.Errorf("alarm at %v and hold of %d steps, want above 0", cfg.Alarm, cfg.Hold))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("configure choice of codec: %w", err)
	}
	return &Auto{cfg: cfg, least: len(cfg.Candidates) - 1, hold: cfg.Hold}, nil
}

// Choose is the codec for vectors of n elements over a link.
func (a *Auto) Choose(n int, link Link) Codec {
	allowed := a.cfg.Candidates[:a.least+1]
	return allowed[Choose(n, link, allowed)].Codec
}

// settle is how many observations make a mean, and how many are needed before it counts.
const settle = 10

// Observe tells of one step with the codec that was chosen: the lengths of residual and gradient. It says whether that
// codec has proved too coarse; then the next choice is a more exact one, and the residual goes with it.
func (a *Auto) Observe(c Codec, residual, gradient float64) (alarm bool) {
	if a.wait > 0 {
		if a.wait--; a.wait == 0 && a.least < len(a.cfg.Candidates)-1 {
			a.least++
			a.wait = a.hold
			a.seen, a.smooth = 0, 0
		}
	}
	if gradient == 0 {
		return false // nothing was learned
	}
	a.seen++
	a.smooth += (residual/gradient - a.smooth) / float64(min(a.seen, settle))
	if a.seen < settle || a.smooth <= a.cfg.Alarm {
		return false
	}
	i := a.index(c)
	if i < 1 {
		return false // there is nothing more exact
	}
	a.least = i - 1
	a.wait = a.hold
	a.hold = min(2*a.hold, 1<<30)
	a.seen, a.smooth = 0, 0
	return true
}

// index is that of a candidate, -1 of another codec.
func (a *Auto) index(c Codec) int {
	for i, other := range a.cfg.Candidates {
		if other.Codec == c {
			return i
		}
	}
	return -1
}
