package region

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"hcclps/p2p"
	"hcclps/p2p/shm/memfd"
)

// Open makes the region of some ranks of comm, in the order of their numbers in it; nil means all. All of them call it, before anything else is sent over comm, with
// equal ranks. The first makes the memory and the others map it. If one of them cannot, all get ErrNotLocal and comm is as it was; after any other error comm
// must be closed.
func Open(ctx context.Context, comm p2p.Comm, ranks []int, config Config) (*Region, error) {
	if ranks == nil {
		for r := range comm.Size() {
			ranks = append(ranks, r)
		}
	}
	config, l, err := config.withDefaults(len(ranks))
	if err != nil {
		return nil, err
	}
	me := slices.Index(ranks, comm.Rank())
	if me < 0 {
		return nil, fmt.Errorf("open region of ranks %v: rank %d is not one of them: %w", ranks, comm.Rank(), p2p.ErrRank)
	}
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	o := opening{comm: comm, ranks: ranks, me: me, layout: l, fd: -1}
	_, _ = rand.Read(o.nonce[:]) // never fails
	if me == 0 {
		err = o.host(ctx)
	} else {
		err = o.join(ctx)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("open region of ranks %v at rank %d: %w", ranks, comm.Rank(), err), o.undo())
		if errors.Is(err, ErrNotLocal) {
			config.Logger.Info("no shared memory for collectives", "reason", err)
		}
		return nil, err
	}
	peers := make([]process, len(ranks))
	for i := range peers { // all have claimed their places
		peers[i] = watch(int(o.mem.ranks[i].pid.Load()))
	}
	return newRegion(me, o.mem, o.fd, peers), nil
}

// opening is the state of one Open.
type opening struct {
	comm   p2p.Comm
	ranks  []int
	me     int
	layout layout
	nonce  [nonceBytes]byte
	fd     int
	mem    *mapping // nil: not mapped
	why    error    // what this rank lacks
}

// message is of this rank.
func (o *opening) message(k kind) message {
	return message{
		kind: k, ok: o.why == nil, rank: o.me, ranks: len(o.ranks), pid: os.Getpid(), uid: os.Geteuid(), fd: max(o.fd, 0),
		memory: o.layout.memory, nonce: o.nonce,
	}
}

// host is the first rank's: it makes the memory, and hears from all whether they have it.
func (o *opening) host(ctx context.Context) error {
	if o.fd, o.why = create(o.layout, o.nonce[:]); o.why == nil {
		if o.mem, o.why = attach(o.layout, o.fd); o.why == nil {
			o.mem.claim(0, o.nonce[:])
		}
	}
	if err := o.tellAll(ctx, o.message(kindOffer)); err != nil {
		return err
	}
	answers := make([]message, len(o.ranks))
	for i := 1; i < len(o.ranks); i++ {
		m, err := o.hear(ctx, i, kindAnswer)
		if err != nil {
			return err
		}
		if !m.ok && o.why == nil {
			o.why = fmt.Errorf("rank %d cannot map the memory of this process", o.ranks[i])
		}
		answers[i] = m
	}
	for i := 1; i < len(o.ranks) && o.why == nil; i++ {
		if !o.mem.claimed(i, answers[i].nonce[:]) {
			o.why = fmt.Errorf("rank %d has mapped other memory", o.ranks[i])
		}
	}
	if err := o.tellAll(ctx, o.message(kindVerdict)); err != nil {
		return err
	}
	return o.lacking()
}

// join is that of the others: it maps what is offered, says whether it did, and hears whether all have. Whoever lacks something says so and goes
// on, so that all come to the same end.
func (o *opening) join(ctx context.Context) error {
	offer, err := o.hear(ctx, 0, kindOffer)
	if err != nil {
		return err
	}
	o.layout.memory = offer.memory
	o.why = o.take(offer)
	if err := o.tell(ctx, 0, o.message(kindAnswer)); err != nil {
		return err
	}
	verdict, err := o.hear(ctx, 0, kindVerdict)
	if err != nil {
		return err
	}
	if !verdict.ok && o.why == nil {
		o.why = errors.New("another rank lacks the memory")
	}
	return o.lacking()
}

// take maps the memory that is offered.
func (o *opening) take(offer message) (err error) {
	switch {
	case !offer.ok:
		return fmt.Errorf("rank %d has no memory to share", o.ranks[0])
	case offer.uid != os.Geteuid():
		return fmt.Errorf("rank %d runs as user %d, this one as %d", o.ranks[0], offer.uid, os.Geteuid())
	}
	if err := o.layout.check(); err != nil {
		return fmt.Errorf("rank %d offers %w", o.ranks[0], err)
	}
	if o.fd, err = memfd.Find(offer.pid, offer.fd, memoryName(offer.nonce[:])); err != nil {
		return err
	}
	if o.mem, err = attach(o.layout, o.fd); err != nil {
		return err
	}
	o.mem.claim(o.me, o.nonce[:])
	return nil
}

func (o *opening) lacking() error {
	if o.why != nil {
		return fmt.Errorf("%w: %w", ErrNotLocal, o.why)
	}
	return nil
}

// undo frees what was taken.
func (o *opening) undo() error {
	var errs []error
	if o.mem != nil {
		errs = append(errs, o.mem.unmap())
	}
	if o.fd >= 0 {
		errs = append(errs, memfd.Close(o.fd))
	}
	return errors.Join(errs...)
}

func (o *opening) tell(ctx context.Context, i int, m message) error {
	return p2p.Send(ctx, o.comm, o.ranks[i], p2p.Bytes(m.encode()))
}

func (o *opening) tellAll(ctx context.Context, m message) error {
	for i := 1; i < len(o.ranks); i++ {
		if err := o.tell(ctx, i, m); err != nil {
			return err
		}
	}
	return nil
}

func (o *opening) hear(ctx context.Context, i int, k kind) (message, error) {
	b := make([]byte, messageBytes)
	if err := p2p.Recv(ctx, o.comm, o.ranks[i], p2p.Bytes(b)); err != nil {
		return message{}, err
	}
	m, err := decode(b, k)
	if err == nil && (m.rank != i || m.ranks != len(o.ranks)) {
		err = fmt.Errorf("rank %d says it is rank %d of %d, want %d of %d: %w", o.ranks[i], m.rank, m.ranks, i, len(o.ranks), p2p.ErrCorrupt)
	}
	return m, err
}
