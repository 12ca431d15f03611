package backend

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/link"
	"hcclps/p2p/shm"
	"hcclps/p2p/tcp"
)

// Config says what may carry the bulk of a process's pairs. The zero value is good.
type Config struct {
	Transport  Transport    // default Auto
	NoFallback bool         // a pair that cannot have Transport fails, instead of going by TCP
	Device     string       // logical number of the NPU that this process owns; "" or "none": it owns none
	Logger     *slog.Logger // nil: discard

	// Of the device, see [hccl.Config]; 0 is the default.
	Pairs        int
	BufferMiB    int
	SingleThread bool
}

// Validate reports every fault of a configuration; whether there is such a device is found out by NewBulk.
func (c Config) Validate() error {
	var errs []error
	if c.Transport != "" && !slices.Contains(Transports(), string(c.Transport)) {
		errs = append(errs, fmt.Errorf("transport %q: want one of %s", c.Transport, strings.Join(Transports(), ", ")))
	}
	device, err := c.device()
	if err != nil {
		errs = append(errs, err)
	}
	if c.Pairs < 0 || c.BufferMiB < 0 {
		errs = append(errs, fmt.Errorf("%d pairs of a device with buffers of %d MiB: want no negative number", c.Pairs, c.BufferMiB))
	}
	if c.Transport == HCCL && err == nil && device == noDevice {
		errs = append(errs, errors.New("transport hccl needs a device of this process: name it (--device N)"))
	}
	return errors.Join(errs...)
}

const noDevice = -1

func (c Config) device() (int, error) {
	if c.Device == "" || c.Device == "none" {
		return noDevice, nil
	}
	n, err := strconv.Atoi(c.Device)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("device %q: want a number from 0, or none (Device, --device)", c.Device)
	}
	return n, nil
}

// Bulk makes the bulk Comms of a process's pairs. Its methods may be called by any number of goroutines.
type Bulk struct {
	cfg    Config
	ours   offer
	device *hccl.Device // nil: none
	record record
	trying chan struct{} // held by the trials of a pair
}

// NewBulk checks the configuration, and with a device loads CANN. It starts nothing: pairs of the device wait for Run.
func NewBulk(cfg Config) (*Bulk, error) {
	if cfg.Transport == "" {
		cfg.Transport = Auto
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("choose transports: %w", err)
	}
	b := &Bulk{cfg: cfg, ours: cfg.offer(machine()), trying: make(chan struct{}, 1)}
	device, _ := cfg.device() // valid
	if device == noDevice {
		return b, nil
	}
	lib, err := acl.Load("")
	if err == nil {
		b.device, err = hccl.Open(hccl.Config{
			Lib: lib, Device: device, MaxPairs: cfg.Pairs, BufferMiB: cfg.BufferMiB, SingleThread: cfg.SingleThread, Logger: cfg.Logger,
		})
	}
	switch {
	case err != nil && (cfg.NoFallback || cfg.Transport.automatic()): // auto with a device that is not there is a mistake
		return nil, fmt.Errorf("use device %d: %w", device, err)
	case err != nil:
		cfg.Logger.Warn("no hccl: bulk goes by tcp", "device", cfg.Device, "err", err)
		b.ours.takes &^= viaHCCL
	}
	return b, nil
}

// Run owns the threads of the device. It returns when ctx has ended; a device that fails is told in the log, since its pairs go on by TCP, or
// ends Run where fallback is forbidden.
func (b *Bulk) Run(ctx context.Context) error {
	if b.device != nil {
		err := b.device.Run(ctx)
		if ctx.Err() == nil && b.cfg.NoFallback {
			return fmt.Errorf("run device %s: %w", b.cfg.Device, err)
		}
		if ctx.Err() == nil {
			b.cfg.Logger.Error("the device is lost: bulk goes by tcp", "device", b.cfg.Device, "err", err)
		}
	}
	<-ctx.Done()
	return nil
}

// Pair is a [link.PairFunc]: shared memory where both ends are on one host and take it, else TCP; or, where one side measures, the faster.
func (b *Bulk) Pair(ctx context.Context, conns []net.Conn, rank int) (link.Comm, error) {
	theirs, err := exchange(ctx, conns[0], b.ours)
	var try ways
	var fallback bool
	if err == nil {
		try, fallback, err = first(b.ours, theirs)
	}
	if err == nil && b.cfg.Transport == HCCL && !better(b.ours, theirs) {
		err = b.cannot("pair with "+conns[0].RemoteAddr().String(), fmt.Errorf("this side takes %v, the other %v: give both sides a device", b.ours.takes, theirs.takes))
	}
	reason := fmt.Sprintf("this side takes %v, the other %v", b.ours.takes, theirs.takes)
	var seen figures
	if all := measured(b.ours, theirs); err == nil && all != 0 {
		var v verdict
		if v, err = b.measure(ctx, conns, rank, b.candidates(all)); err == nil {
			try, fallback, seen, reason = v.picked, false, v.seen, v.seen.String()
		}
	}
	if err != nil {
		closeAll(conns)
		return nil, err
	}
	return b.make(ctx, conns, rank, choice{try, fallback, reason, seen})
}

// choice is what a pair is made of at once.
type choice struct {
	try      ways
	fallback bool // TCP will do where there is no shared memory
	reason   string
	seen     figures
}

// make makes it.
func (b *Bulk) make(ctx context.Context, conns []net.Conn, rank int, c choice) (link.Comm, error) {
	peer := conns[0].RemoteAddr().String()
	if c.try == viaSHM {
		comm, err := shm.Negotiate(ctx, conns[0], rank, shm.Config{Logger: b.cfg.Logger})
		switch {
		case err == nil:
			closeAll(conns[1:])
			b.picked(peer, viaSHM, c.reason, c.seen)
			return comm, nil
		case !errors.Is(err, shm.ErrNotLocal):
			closeAll(conns[1:])
			return nil, err
		case !c.fallback:
			closeAll(conns)
			return nil, fmt.Errorf("%w: %w: and one side takes nothing else; change --transport or drop --no-fallback", link.ErrUnusable, err)
		}
		c.reason = err.Error()
	}
	b.picked(peer, viaTCP, c.reason, c.seen, "stripes", len(conns))
	return tcp.Pair(conns, rank), nil
}

// picked notes what carries the bulk of a pair from now on.
func (b *Bulk) picked(peer string, by ways, reason string, seen figures, more ...any) {
	b.cfg.Logger.With(more...).Info("a pair has its transport", "peer", peer, "transport", by.transport(), "reason", reason)
	b.record.add(Pick{Peer: peer, By: by.transport(), Reason: reason}, seen)
}

// Upgrade is a [link.UpgradeFunc]: it makes the HCCL pair of two devices. It is nil in a process without one.
func (b *Bulk) Upgrade() link.UpgradeFunc {
	if b.device == nil {
		return nil
	}
	return b.upgrade
}

func (b *Bulk) upgrade(ctx context.Context, conn net.Conn, rank int) (link.Comm, error) {
	peer := conn.RemoteAddr().String()
	theirs, err := exchange(ctx, conn, b.ours)
	if err == nil && !better(b.ours, theirs) {
		err = fmt.Errorf("%w: both are on one host, or one side has no device: this side takes %v, the other %v", link.ErrNoUpgrade, b.ours.takes, theirs.takes)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	comm, err := b.device.Pair(ctx, conn, rank)
	never := errors.Is(err, hccl.ErrChip) || errors.Is(err, hccl.ErrUnfit) || err != nil && acl.ActionOf(err) == acl.Leave
	if never || errors.Is(err, hccl.ErrBudget) {
		if unusable := b.cannot("upgrade", err); unusable != nil {
			return nil, unusable
		}
	}
	switch {
	case never, errors.Is(err, hccl.ErrStopped):
		return nil, fmt.Errorf("%w: %w", link.ErrNoUpgrade, err)
	case err != nil:
		return nil, err
	}
	var kept link.Comm = comm
	seen, reason := b.record.seen(peer), fmt.Sprintf("this side takes %v, the other %v", b.ours.takes, theirs.takes)
	if measured(b.ours, theirs) != 0 {
		if kept, seen, err = b.keepFaster(ctx, comm, peer); err != nil {
			return nil, err
		}
		reason = seen.String()
	}
	b.picked(peer, viaHCCL, reason, seen, "device", b.cfg.Device, "chip", b.device.Chip(), "simulator", b.device.Simulator())
	return kept, nil
}

// cannot is the error of a pair that has no HCCL where nothing else will do. Where HCCL was only asked for it is a word in the log.
func (b *Bulk) cannot(what string, why error) error {
	switch {
	case b.cfg.Transport != HCCL:
		return nil
	case b.cfg.NoFallback:
		return fmt.Errorf("%w: %s over hccl: %w; or drop --no-fallback", link.ErrUnusable, what, why)
	}
	b.cfg.Logger.Warn("hccl was asked for and cannot be had: bulk goes by tcp", "what", what, "err", why)
	return nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close() // there is nothing on it that somebody waits for
	}
}

// machine is the same for two processes of one running kernel only, or 0.
func machine() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(id) // never fails
	return h.Sum64()
}
