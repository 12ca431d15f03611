package pairbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"hcclps/p2p"
)

// Spec says what to measure.
type Spec struct {
	Sizes  []int         // bytes of a message
	Both   bool          // streams in both directions at once
	Time   time.Duration // of a size, about; default 1 s
	Rounds int           // of which the median counts; default 5
	Slots  int           // buffers in turn; default 8
}

// maxBuffers bounds the memory of a rank's buffers of one direction: very large messages have fewer slots.
const maxBuffers = 1 << 30

func (s Spec) withDefaults() Spec {
	if s.Time == 0 {
		s.Time = time.Second
	}
	if s.Rounds == 0 {
		s.Rounds = 5
	}
	if s.Slots == 0 {
		s.Slots = 8
	}
	return s
}

// Result is one size. The names in JSON are those of nccl-tests, as far as they have one.
type Result struct {
	Size   int     `json:"size"`     // bytes
	Count  int     `json:"count"`    // elements of type
	Type   string  `json:"type"`     // uint8
	Redop  string  `json:"redop"`    // none
	Micros float64 `json:"us"`       // one way
	Algbw  float64 `json:"algbw"`    // GB/s of the stream, each direction
	Busbw  float64 `json:"busbw"`    // GB/s of the stream, both directions together
	CPU    float64 `json:"cpu_s_gb"` // CPU seconds of both ranks a GB
	Slots  int     `json:"slots"`    // buffers in turn
	Number int     `json:"messages"` // of a round of the stream
	Wrong  int     `json:"wrong"`    // messages with wrong contents
	Spread float64 `json:"spread"`   // GB/s of the best round over that of the worst
}

// peer is how rank 0 makes the other rank run the same job.
type peer interface {
	start(j job) error
	end(ctx context.Context) (outcome, error)
}

// Run measures as rank 0 of the pair and calls report after each size.
func Run(ctx context.Context, p *Pair, spec Spec, report func(Result) error) error {
	spec = spec.withDefaults()
	r := runner{side: newSide(p.ends()), peer: p.peer, spec: spec}
	for _, size := range spec.Sizes {
		res, err := r.size(ctx, size)
		if err != nil {
			return fmt.Errorf("measure %d bytes over %s: %w", size, p.Transport, err)
		}
		if err := report(res); err != nil {
			return err
		}
	}
	return r.finish(ctx)
}

// finish tells the other rank, which answers: from then on it does not mind that this one goes away.
func (r *runner) finish(ctx context.Context) error {
	if err := r.peer.start(job{End: true}); err != nil {
		return err
	}
	_, err := r.peer.end(ctx)
	return err
}

type runner struct {
	side *side
	peer peer
	spec Spec
}

// size measures one size.
func (r *runner) size(ctx context.Context, size int) (Result, error) {
	slots := min(r.spec.Slots, max(2, maxBuffers/max(size, 1)))
	res := Result{Size: size, Count: size, Type: "uint8", Redop: "none", Slots: slots}
	if size == 0 {
		res.Slots = r.spec.Slots
	}
	ping := job{Size: size, Slots: res.Slots}
	stream := job{Size: size, Slots: res.Slots, Stream: true, Both: r.spec.Both}
	half := r.spec.Time / time.Duration(2*r.spec.Rounds)
	var err error
	if ping.Count, err = r.trial(ctx, ping, half); err != nil {
		return res, err
	}
	if stream.Count, err = r.trial(ctx, stream, half); err != nil {
		return res, err
	}
	var micros, rate, cpu []float64
	for range r.spec.Rounds {
		p, err := r.both(ctx, ping)
		if err != nil {
			return res, err
		}
		s, err := r.both(ctx, stream)
		if err != nil {
			return res, err
		}
		res.Number = stream.Count
		gb := float64(size) * float64(stream.Count) / 1e9
		micros = append(micros, p.Wall.Seconds()*1e6/float64(2*ping.Count))
		rate = append(rate, gb/s.Wall.Seconds())
		if moved := gb * float64(r.directions()); moved > 0 {
			cpu = append(cpu, s.CPU.Seconds()/moved)
		}
		ping.Count, stream.Count = fewer(ping, p.Wall, half), fewer(stream, s.Wall, half)
	}
	ping.Check, stream.Check = true, true
	for _, j := range []job{ping, stream} {
		j.Count = max(j.Slots, min(j.Count, 4*j.Slots))
		o, err := r.both(ctx, j)
		if err != nil {
			return res, err
		}
		res.Wrong += o.Wrong
	}
	res.Micros, res.Algbw, res.CPU = median(micros), median(rate), median(cpu)
	res.Busbw = res.Algbw * float64(r.directions())
	if worst := slices.Min(rate); worst > 0 {
		res.Spread = slices.Max(rate) / worst
	}
	return res, nil
}

func (r *runner) directions() int {
	if r.spec.Both {
		return 2
	}
	return 1
}

// fewer is how many messages the next round has. One that took far longer than the trial promised, because others have the machine by now, is followed
// by one that is shorter.
func fewer(j job, took, want time.Duration) int {
	if took <= 4*want {
		return j.Count
	}
	return max(j.least(), int(float64(j.Count)*float64(want)/float64(took)))
}

// trial finds how many messages take about the time.
func (r *runner) trial(ctx context.Context, j job, want time.Duration) (int, error) {
	const most = 1 << 20
	least := j.least()
	for j.Count = least; ; j.Count *= 4 {
		o, err := r.both(ctx, j)
		if err != nil {
			return 0, err
		}
		if o.Wall > want/8 || j.Count*4 > most {
			n := float64(j.Count) * float64(want) / float64(max(o.Wall, 1))
			return int(min(max(n, float64(least)), most)), nil
		}
	}
}

// both runs a job on both ranks and adds up what they saw; the time is that of this rank.
func (r *runner) both(ctx context.Context, j job) (outcome, error) {
	if err := r.peer.start(j); err != nil {
		return outcome{}, err
	}
	mine, err := r.side.do(ctx, j)
	theirs, perr := r.peer.end(ctx)
	if err := errors.Join(err, perr); err != nil {
		return mine, err
	}
	return outcome{Wall: mine.Wall, CPU: mine.CPU + theirs.CPU, Wrong: mine.Wrong + theirs.Wrong}, nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// remote is a rank in another process, told by lines of JSON.
type remote struct {
	enc *json.Encoder
	dec *json.Decoder
}

func newRemote(rw io.ReadWriter) *remote {
	return &remote{json.NewEncoder(rw), json.NewDecoder(rw)}
}

func (r *remote) start(j job) error {
	if err := r.enc.Encode(j); err != nil {
		return fmt.Errorf("tell the other rank: %w", err)
	}
	return nil
}

func (r *remote) end(context.Context) (outcome, error) {
	var o outcome
	if err := r.dec.Decode(&o); err != nil {
		return o, fmt.Errorf("hear from the other rank: %w", err)
	}
	if o.Err != "" {
		return o, fmt.Errorf("the other rank: %s", o.Err) //nolint:err113 // its text is all there is
	}
	return o, nil
}

// Serve is rank 1: it does what rank 0 says until that has nothing more to do.
func Serve(ctx context.Context, p *Pair) error {
	s := newSide(p.ends())
	dec, enc := json.NewDecoder(p.control), json.NewEncoder(p.control)
	for {
		var j job
		if err := dec.Decode(&j); err != nil {
			return fmt.Errorf("hear from rank 0: %w", err)
		}
		if j.End {
			err := enc.Encode(outcome{})
			release := p2p.Bound(ctx, p.control)
			_, _ = io.Copy(io.Discard, p.control) // rank 0 goes first
			_ = release()
			return err
		}
		o, err := s.do(ctx, j)
		if err != nil {
			o.Err = err.Error()
		}
		if werr := enc.Encode(o); werr != nil {
			err = errors.Join(err, fmt.Errorf("tell rank 0: %w", werr))
		}
		if err != nil {
			return err
		}
	}
}

// local is the other rank in this process.
type local struct {
	ctx  context.Context //nolint:containedctx // of the measurement
	side *side
	done chan outcome
}

func newLocal(ctx context.Context, comm p2p.Comm) *local {
	return &local{ctx, newSide(direct{comm}), make(chan outcome, 1)}
}

func (l *local) start(j job) error {
	if j.End {
		l.done <- outcome{}
		return nil
	}
	go func() {
		o, err := l.side.do(l.ctx, j)
		if o.CPU = 0; err != nil { // it is that of the process, which rank 0 counts
			o.Err = err.Error()
		}
		l.done <- o
	}()
	return nil
}

func (l *local) end(ctx context.Context) (outcome, error) {
	select {
	case o := <-l.done:
		if o.Err != "" {
			return o, errors.New(o.Err)
		}
		return o, nil
	case <-ctx.Done():
		return outcome{}, context.Cause(ctx)
	}
}
