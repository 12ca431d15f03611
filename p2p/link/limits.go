package link

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p"
)

// Limits bound what connections hold. The zero value has the defaults, which programs use: other values are for tests and for tuning.
type Limits struct {
	Window      int // chunks granted and not yet received a connection, default 4
	Chunk       int // bytes of a chunk that is received on the bulk Comm, 0 = by what is measured: 1 MiB below 2 GB/s, 16 MiB above 10, else startChunk
	Stripes     int // connections of a bulk Comm that this side dials, default 1
	MaxBody     int // bytes of a body that is received, default 256 MiB
	MaxRequests int // of a Server: handlers running at once a connection, default 256; further calls wait at the caller
	MaxHalfOpen int // of a Gate: connections whose hello is not verified yet, default 64; further ones wait in the listener

	Scratch int // bytes of scratch memory that a Client or a Server keeps between uses, default 64 MiB

	Stall time.Duration // chunks are on their way and none arrives for so long: the bulk connection is replaced, default 15 s
}

const (
	dialTimeout = time.Second      // bounds one attempt to connect
	pairTimeout = 10 * time.Second // bounds a PairFunc
	maxStripes  = 16

	// startChunk is smaller than that of p2p.ChunkPolicy: a pull waits for the window of a push, and chunks of 4 MiB
	// were worth at most a tenth of the CPU time of 1 MiB.
	startChunk = 2 << 20
)

// setDefaults fills in what is zero and returns every fault.
func (l *Limits) setDefaults() error {
	var faults []error
	def := func(p *int, name string, v, most int) {
		if *p == 0 {
			*p = v
		}
		if *p < 1 || *p > most {
			faults = append(faults, fmt.Errorf("%s %d is not in 1..%d", name, *p, most))
		}
	}
	def(&l.Window, "window", 4, p2p.MaxWindow)
	if l.Chunk < 0 || l.Chunk > p2p.MaxChunk {
		faults = append(faults, fmt.Errorf("chunk %d is not in 0..%d", l.Chunk, p2p.MaxChunk))
	}
	def(&l.Stripes, "stripes", 1, maxStripes)
	def(&l.MaxBody, "max body", 256<<20, 1<<40)
	def(&l.MaxRequests, "max requests", 256, math.MaxUint16)
	def(&l.MaxHalfOpen, "max half open", 64, 1<<20)
	def(&l.Scratch, "scratch", 64<<20, 1<<40)
	if l.Stall == 0 {
		l.Stall = 15 * time.Second
	}
	if l.Stall < 0 {
		faults = append(faults, fmt.Errorf("stall %v is below zero", l.Stall))
	}
	return errors.Join(faults...)
}

// options are what both sides of a connection are configured with.
type options struct {
	Limits
	pair      PairFunc
	upgrade   UpgradeFunc
	heartbeat time.Duration
	suspect   time.Duration
	logger    *slog.Logger
	trace     *trace.Recorder
	pool      *p2p.Pool // of all connections
}

// policy is how bodies are moved.
func (o *options) policy() p2p.Policy {
	return p2p.Policy{
		Chunk:  p2p.ChunkPolicy{Fixed: o.Chunk, Start: startChunk},
		Window: p2p.WindowPolicy{Chunks: o.Window},
		Stall:  o.Stall,
	}
}

// setDefaults fills in what is zero and returns every fault.
func (o *options) setDefaults() error {
	faults := []error{o.Limits.setDefaults()}
	o.pool = p2p.NewPool(o.Scratch)
	if o.pair == nil {
		faults = append(faults, errors.New("pair is nil: give the backend's function"))
	}
	if o.heartbeat == 0 {
		o.heartbeat = 500 * time.Millisecond
	}
	if o.suspect == 0 {
		o.suspect = 2 * time.Second
	}
	if o.heartbeat <= 0 || o.suspect <= o.heartbeat {
		faults = append(faults, fmt.Errorf("suspect %v must be above heartbeat %v, and both above zero", o.suspect, o.heartbeat))
	}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(faults...)
}
