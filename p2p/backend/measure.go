package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/link"
	"hcclps/p2p/shm"
	"hcclps/p2p/tcp"
)

// candidate is a transport that can be tried.
type candidate struct {
	way  ways
	open func(ctx context.Context, conns []net.Conn, rank int) (link.Comm, error)
}

// candidates are those of [Bulk.Pair], the one that is more likely faster first.
func (b *Bulk) candidates(both ways) (all []candidate) {
	if both&viaSHM != 0 {
		all = append(all, candidate{viaSHM, func(ctx context.Context, conns []net.Conn, rank int) (link.Comm, error) {
			return shm.Negotiate(ctx, conns[0], rank, shm.Config{Logger: b.cfg.Logger})
		}})
	}
	if both&viaTCP != 0 {
		all = append(all, candidate{viaTCP, func(_ context.Context, conns []net.Conn, rank int) (link.Comm, error) {
			return tcp.Pair(conns, rank), nil
		}})
	}
	return all
}

// measure tries the candidates one after the other over lent connections. Both sides get the same: the ways that can be had, and what rank 0 has
// measured. What is measured in one process is measured one after the other: its callers wait for each other where it is dialled.
func (b *Bulk) measure(ctx context.Context, conns []net.Conn, rank int, all []candidate) (verdict, error) {
	if rank == 1 {
		select {
		case b.trying <- struct{}{}:
			defer func() { <-b.trying }()
		case <-ctx.Done():
			return verdict{}, fmt.Errorf("wait for the trials of other pairs: %w", context.Cause(ctx))
		}
	}
	var v verdict
	for _, c := range all {
		t, err := try(ctx, conns, rank, c)
		if errors.Is(err, shm.ErrNotLocal) {
			continue
		}
		if err != nil {
			return verdict{}, fmt.Errorf("measure %v with %s: %w", c.way, conns[0].RemoteAddr(), err)
		}
		v.seen[c.way.index()] = t
	}
	v.picked = v.seen.fastest()
	if v.picked == 0 {
		return verdict{}, fmt.Errorf("%w: %w: and one side takes nothing else", link.ErrUnusable, shm.ErrNotLocal)
	}
	release := p2p.Bound(ctx, conns[0])
	var err error
	if rank == 0 {
		_, err = conns[0].Write(v.encode())
	} else {
		v, err = readVerdict(conns[0])
	}
	if err == nil && !slices.ContainsFunc(all, func(c candidate) bool { return c.way == v.picked }) {
		err = fmt.Errorf("%w: it picks %v, which was not tried", p2p.ErrMalformed, v.picked)
	}
	if err = errors.Join(release(), err); err != nil {
		return verdict{}, fmt.Errorf("agree with %s on what is fastest: %w", conns[0].RemoteAddr(), err)
	}
	return v, nil
}

func readVerdict(r io.Reader) (verdict, error) {
	b := make([]byte, verdictSize)
	if _, err := io.ReadFull(r, b); err != nil {
		return verdict{}, fmt.Errorf("%w: %w", p2p.ErrPeer, err)
	}
	return decodeVerdict(b)
}

// try times a candidate. The connections are as they were before unless it fails.
func try(ctx context.Context, conns []net.Conn, rank int, c candidate) (timing, error) {
	leases, lent := lend(conns)
	comm, err := c.open(ctx, lent, rank)
	notLocal := errors.Is(err, shm.ErrNotLocal)
	if err != nil && !notLocal {
		return timing{}, err
	}
	var t timing
	if !notLocal {
		r := start(ctx, comm)
		t, err = times(ctx, comm)
		if err = errors.Join(err, r.stop()); err != nil {
			return timing{}, err
		}
	}
	if ended := endAll(ctx, leases); ended != nil {
		return timing{}, ended
	}
	return t, err
}

// running is the Run of a Comm that somebody started.
type running struct {
	comm   link.Comm
	cancel context.CancelCauseFunc
	ended  chan error
}

// start runs comm until it is closed or told to end. It outlives ctx.
func start(ctx context.Context, comm link.Comm) *running {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{comm, cancel, make(chan error, 1)}
	go func() { r.ended <- comm.Run(ctx) }()
	return r
}

// stop closes the Comm and waits for its end, which the other side may have begun.
func (r *running) stop() error {
	_ = r.comm.Close() // Run says how it ended
	defer r.cancel(nil)
	if err := <-r.ended; err != nil && !errors.Is(err, p2p.ErrPeer) && !errors.Is(err, p2p.ErrClosed) {
		return err
	}
	return nil
}

// tried is a Comm that runs since it was tried.
type tried struct {
	*hccl.Comm
	running *running
}

// Run takes over. It runs once.
func (t *tried) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { t.running.cancel(context.Cause(ctx)) })
	defer stop()
	defer t.running.cancel(nil)
	return <-t.running.ended
}

// keepFaster tries a fresh pair of devices against what was measured of the pair of processes before. Both sides keep it or both do not.
func (b *Bulk) keepFaster(ctx context.Context, comm *hccl.Comm, peer string) (link.Comm, figures, error) {
	r := start(ctx, comm)
	v, err := b.compare(ctx, comm, peer)
	if err == nil && v.picked != viaHCCL {
		err = fmt.Errorf("%w: hccl is %w: %v", link.ErrNoUpgrade, errSlower, v.seen)
	}
	if err != nil {
		_ = r.stop() // what happened before says more
		return nil, figures{}, err
	}
	return &tried{comm, r}, v.seen, nil
}

func (b *Bulk) compare(ctx context.Context, comm *hccl.Comm, peer string) (v verdict, err error) {
	t, err := times(ctx, comm)
	if err != nil {
		return v, fmt.Errorf("measure hccl with %s: %w", peer, err)
	}
	word := make([]byte, verdictSize)
	if comm.Rank() == 1 {
		if err = p2p.Recv(ctx, comm, 0, p2p.Bytes(word)); err == nil {
			v, err = decodeVerdict(word)
		}
	} else {
		v.seen = b.record.seen(peer)
		v.seen[viaHCCL.index()] = t
		v.picked = v.seen.fastest()
		err = p2p.Send(ctx, comm, 1, p2p.Bytes(v.encode()))
	}
	if err != nil {
		return verdict{}, fmt.Errorf("agree with %s on what is fastest: %w", peer, err)
	}
	return v, nil
}
