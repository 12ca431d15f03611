package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"hcclps/p2p"
)

// A trial times a Comm: messages of 1 MiB go to and fro, then messages of 16 MiB. Of each size the best of some rounds counts, since the first
// touches memory that is new.
const (
	smallTrial  = 1 << 20
	largeTrial  = 16 << 20
	trialRounds = 3
	trialTime   = time.Second     // no round is begun that would probably end later
	trialLimit  = 8 * time.Second // the machine may be busy; a Comm that takes longer is broken
)

// timing is how long a message takes one way.
type timing struct{ small, large time.Duration }

// cost is what candidates are compared by: as many bytes in messages of either size.
func (t timing) cost() time.Duration { return largeTrial/smallTrial*t.small + t.large }

func (t timing) known() bool { return t.small > 0 }

func (t timing) String() string {
	return fmt.Sprintf("%.2f and %.2f GB/s", rate(smallTrial, t.small), rate(largeTrial, t.large))
}

func rate(bytes int, d time.Duration) float64 { return float64(bytes) / float64(max(d, 1)) }

// times makes a trial of a running Comm. What rank 0 returns counts: it says which rounds there are, by a message of one byte before each.
func times(ctx context.Context, comm p2p.Comm) (timing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, trialLimit, fmt.Errorf("a trial took %v", trialLimit))
	defer cancel()
	t := trial{comm: comm, buf: make([]byte, largeTrial), began: time.Now()}
	small, err := t.best(ctx, smallTrial)
	if err != nil {
		return timing{}, err
	}
	t.perByte = float64(small) / smallTrial
	large, err := t.best(ctx, largeTrial)
	if err != nil {
		return timing{}, err
	}
	if large == 0 { // too slow to be tried
		large = largeTrial / smallTrial * small
	}
	return timing{small, large}, nil
}

type trial struct {
	comm    p2p.Comm
	buf     []byte
	began   time.Time
	perByte float64 // nanoseconds; 0 when nothing is known
}

// best is the shortest time of a message, 0 if there was no round.
func (t *trial) best(ctx context.Context, size int) (best time.Duration, err error) {
	for round := 0; ; round++ {
		more := round < trialRounds && time.Since(t.began)+time.Duration(2*t.perByte*float64(size)) < trialTime
		if more, err = t.agree(ctx, more); err != nil || !more {
			return best, err
		}
		start := time.Now()
		if err := t.toAndFro(ctx, size); err != nil {
			return 0, err
		}
		if took := max(time.Since(start)/2, 1); best == 0 || took < best {
			best = took
		}
	}
}

// agree tells rank 1 whether there is another round.
func (t *trial) agree(ctx context.Context, more bool) (bool, error) {
	word := make([]byte, 1)
	if t.comm.Rank() == 1 {
		err := p2p.Recv(ctx, t.comm, 0, p2p.Bytes(word))
		return word[0] == 1, err
	}
	if more {
		word[0] = 1
	}
	return more, p2p.Send(ctx, t.comm, 1, p2p.Bytes(word))
}

func (t *trial) toAndFro(ctx context.Context, size int) error {
	b := p2p.Bytes(t.buf[:size])
	if t.comm.Rank() == 1 {
		if err := p2p.Recv(ctx, t.comm, 0, b); err != nil {
			return err
		}
		return p2p.Send(ctx, t.comm, 0, b)
	}
	if err := p2p.Send(ctx, t.comm, 1, b); err != nil {
		return err
	}
	return p2p.Recv(ctx, t.comm, 1, b)
}

// figures are the timings of transports, by the number of their bit in ways; of those that were not tried there are none.
type figures [3]timing

// fastest is the best of those that were tried; among equals the last, 0 if there is none.
func (f figures) fastest() (best ways) {
	var least time.Duration
	for i, t := range f {
		if t.known() && (best == 0 || t.cost() <= least) {
			best, least = 1<<i, t.cost()
		}
	}
	return best
}

func (f figures) String() string {
	var each []string
	for i, t := range f {
		if t.known() {
			each = append(each, fmt.Sprintf("%v %v", ways(1<<i), t))
		}
	}
	return "measured at 1 and 16 MiB: " + strings.Join(each, ", ")
}

// A verdict is what rank 0 tells rank 1 after its trials:
//
//	0 4 "hcmv" | 4 1 picked (1 tcp, 2 shm, 4 hccl) | 5 3 zero | 8 48 nanoseconds of 1 and of 16 MiB over tcp, shm, hccl: u64 each, 0: not tried
type verdict struct {
	picked ways
	seen   figures
}

const (
	verdictMagic = "hcmv"
	verdictSize  = 8 + 3*16
)

func (v verdict) encode() []byte {
	b := append(make([]byte, 0, verdictSize), verdictMagic...)
	b = append(b, byte(v.picked), 0, 0, 0)
	for _, t := range v.seen {
		b = binary.LittleEndian.AppendUint64(b, uint64(t.small))
		b = binary.LittleEndian.AppendUint64(b, uint64(t.large))
	}
	return b
}

func decodeVerdict(b []byte) (v verdict, err error) {
	if len(b) != verdictSize || string(b[:4]) != verdictMagic || b[5]|b[6]|b[7] != 0 {
		return v, fmt.Errorf("read verdict of a trial: %w: %x", p2p.ErrMalformed, b)
	}
	v.picked = ways(b[4])
	for i := range v.seen {
		small, large := binary.LittleEndian.Uint64(b[8+16*i:]), binary.LittleEndian.Uint64(b[16+16*i:])
		if small>>62|large>>62 != 0 || (small == 0) != (large == 0) {
			return verdict{}, fmt.Errorf("read verdict of a trial: %w: %d and %d ns over %v", p2p.ErrMalformed, small, large, ways(1<<i))
		}
		v.seen[i] = timing{time.Duration(small), time.Duration(large)}
	}
	for i, t := range v.seen {
		if v.picked == 1<<i && t.known() {
			return v, nil
		}
	}
	return verdict{}, fmt.Errorf("read verdict of a trial: %w: %d is none of what was tried", p2p.ErrMalformed, b[4])
}

// errSlower means that what was tried loses against what there is.
var errSlower = errors.New("slower than what carries bulk already")
