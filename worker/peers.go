package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"sync"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/collective"
	"hcclps/p2p/world"
	"hcclps/ps/wire"
)

// peers are the workers of a job as ranks of a world, and the group in which they bring their gradients together. Of one epoch: a world that
// has lost a rank is followed by another.
type peers struct {
	cfg    Config
	log    *slog.Logger
	bulk   *backend.Bulk
	start  func(part func(context.Context) error) // gives a part a goroutine that Close waits for
	world  *world.World
	mu     sync.Mutex // guards group against others than the goroutine that trains
	group  *collective.Group
	fusion *collective.Fusion
	halves map[p2p.DType]*collective.Fusion // of tensors that travel in 16 bits, by the type
	memory io.Closer                        // that the group shares with others of this host; nil: none
	ended  chan struct{}                    // closed when the group's Run has ended; nil: it never ran

	heads, bodies []byte // memory of exchanges
	body          []byte
}

// openPeers meets the other workers; servers, which may be nil, tell where if nobody else does.
func openPeers(ctx context.Context, cfg Config, servers *cluster, bulk *backend.Bulk, start func(part func(context.Context) error)) (*peers, error) {
	at := cfg.Meet
	at.Rank, at.Size, at.Job, at.Info, at.Logger = cfg.Rank, cfg.World, cfg.Job, fmt.Sprintf("%s, %s", cfg.Worker, owner()), cfg.Logger
	at.Network, at.Pair = cfg.Network, bulk.Pair
	at.Timeout = cmp.Or(at.Timeout, cfg.Deadline)
	at.Name = fmt.Sprintf("rank %d", cfg.Rank) // as it was started, which its successor is too
	at.Terms = append(at.Terms, meetingTerms(&cfg)...)
	if at.Master == "" && servers != nil {
		at.Register = notes{servers, cfg.Job}
		at.Listen = cmp.Or(at.Listen, facing(ctx, cfg.Servers))
	}
	w, err := world.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	p := &peers{cfg: cfg, log: cfg.Logger, bulk: bulk, start: start}
	ctx, cancel := context.WithTimeout(ctx, cfg.Deadline)
	defer cancel()
	return p, p.form(ctx, w)
}

// form makes the group of a world that has just met.
func (p *peers) form(ctx context.Context, w *world.World) error {
	p.release()
	p.world = w
	p.start(func(ctx context.Context) error {
		if err := w.Run(ctx); err != nil {
			p.log.Info("the world of workers has ended", "epoch", w.Epoch(), "err", err) // whoever waits for something is told too
		}
		return nil
	})
	links, apart, err := p.measure(ctx)
	if err != nil {
		return err
	}
	comm, err := w.Comm(ctx, "steps", nil)
	if err != nil {
		return err
	}
	memory, err := p.share(ctx, comm)
	if err != nil {
		return errors.Join(err, comm.Close())
	}
	native, err := p.native(ctx, comm, memory)
	if err != nil {
		return errors.Join(err, comm.Close())
	}
	g, err := collective.New(collective.Config{
		Comm: comm, Hosts: w.Hosts(), Epoch: uint64(w.Epoch()), Algorithms: p.cfg.Algorithms, RankOrder: p.cfg.RankOrder,
		Transport: p.transport(), Measured: links, Apart: apart, Shared: memory, Native: native, Watchdog: p.cfg.Deadline, Control: w, Logger: p.log, Trace: p.cfg.Trace,
	})
	if err == nil {
		p.mu.Lock()
		p.group = g
		p.mu.Unlock()
		p.fusion, err = g.Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Sum})
	}
	p.halves = map[p2p.DType]*collective.Fusion{}
	for _, t := range []p2p.DType{p2p.Float16, p2p.BFloat16} {
		if err == nil {
			p.halves[t], err = g.Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Sum, Wire: t})
		}
	}
	if err != nil && native != nil {
		err = errors.Join(err, native.Close())
	}
	if err != nil {
		return errors.Join(err, comm.Close())
	}
	ended := make(chan struct{})
	p.ended = ended
	p.start(func(ctx context.Context) error {
		defer close(ended)
		defer context.AfterFunc(ctx, func() { _ = g.Close() })() // which is its good end
		if err := g.Run(context.WithoutCancel(ctx)); err != nil {
			p.log.Debug("the group of workers has ended", "err", err) // whoever waits for an operation is told
		}
		return nil
	})
	return nil
}

// share makes memory that the workers of this host have in common, by which they reduce without sending; nil if there can be none, or another transport is
// wanted.
func (p *peers) share(ctx context.Context, comm p2p.Comm) (collective.Shared, error) {
	if t := p.cfg.Bulk.Transport; t == backend.TCP || t == backend.HCCL {
		return nil, nil
	}
	r, err := backend.Share(ctx, comm, p.world.Hosts(), backend.ShareConfig{Logger: p.log})
	if err != nil || r == nil {
		return nil, err
	}
	p.memory = r
	return r, nil
}

// native is the collectives of the devices that all workers have, where bytes pass through those anyway; else nil.
func (p *peers) native(ctx context.Context, comm p2p.Comm, memory collective.Shared) (collective.Native, error) {
	if t := p.cfg.Bulk.Transport; t == backend.TCP || t == backend.SHM || memory != nil {
		return nil, nil
	}
	name := fmt.Sprintf("steps %08x of epoch %d", crc32.ChecksumIEEE([]byte(p.cfg.Job)), p.world.Epoch())
	n, err := p.bulk.Native(ctx, comm, name)
	if err != nil || n == nil {
		return nil, err
	}
	return n, nil
}

// release lets go of the memory of the last group. It is called when nobody uses that any more, and waits for the group's end.
func (p *peers) release() {
	if p.ended != nil {
		<-p.ended
	}
	if p.memory != nil {
		if err := p.memory.Close(); err != nil {
			p.log.Debug("close shared memory", "err", err)
		}
	}
	p.ended, p.memory = nil, nil
}

// transport is what most of the group's bytes will go by, for the choice of algorithms.
func (p *peers) transport() string {
	hosts := p.world.Hosts()
	if t := string(p.cfg.Bulk.Transport); t == "tcp" || t == "hccl" {
		return t
	}
	if slices.Max(hosts) == 0 {
		return "shm"
	}
	return "tcp"
}

// fusionOf is what sums a tensor.
func (p *peers) fusionOf(t *wire.Table) *collective.Fusion {
	if f := p.halves[halves(t)]; f != nil {
		return f
	}
	return p.fusion
}

// flush lets out all that waits for more, in one order on all ranks.
func (p *peers) flush() {
	p.fusion.Flush()
	p.halves[p2p.Float16].Flush()
	p.halves[p2p.BFloat16].Flush()
}

// gather gives everybody everybody's part, all of one length, by rank.
func (p *peers) gather(ctx context.Context, mine, all []byte) error {
	return p.group.AllGather(p2p.Bytes(mine), p2p.Bytes(all), p2p.Uint8).Wait(ctx)
}

// room is n bytes of b, or of new memory, at a multiple of 8.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		b = make([]byte, n, n+n/4)
	}
	return b[:n]
}
