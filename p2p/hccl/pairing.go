package hccl

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
)

// Pair makes the Comm of a pair with the device at the other end of conn, where Pair is called as well, with the other
// rank. It takes the time of a communicator's creation, often seconds, and is bounded by ctx; pairs of a device are made one
// after the other. The Comm owns conn; on error conn is closed. An error that wraps ErrChip, ErrBudget, ErrRefused or
// ErrBusy means that another backend should carry the pair.
func (d *Device) Pair(ctx context.Context, conn net.Conn, rank int) (*Comm, error) {
	began := time.Now()
	c, err := d.pair(ctx, conn, rank)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("pair device %d with %s: %w", d.cfg.Device, conn.RemoteAddr(), err)
	}
	d.log.Info("pair is made over hccl", "device", d.cfg.Device, "peer", conn.RemoteAddr(), "communicator", c.bond.name,
		"took", time.Since(began), "simulator", d.self.Simulator != "")
	return c, nil
}

func (d *Device) pair(ctx context.Context, conn net.Conn, rank int) (*Comm, error) {
	if rank != 0 && rank != 1 {
		return nil, fmt.Errorf("make rank %d of a pair: %w", rank, p2p.ErrRank)
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.live.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &pairing{d: d, talk: newTalk(conn), mine: d.self}
	p.mine.Rank = rank
	defer close(p.quit)
	d.live.Go(func() {
		select {
		case <-d.stopped:
			cancel(ErrStopped)
		case <-p.quit:
		}
	})
	d.live.Go(p.listen)
	release := p2p.Bound(ctx, conn)
	err := p.make(ctx)
	if ended := release(); ended != nil {
		if err == nil {
			d.bury(p.bond, endDrained, func(error) {})
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) { // which says nothing but that ctx ended
			err = ended
		}
	}
	if err != nil {
		p.refuse(err)
		return nil, err
	}
	return newComm(d, p), nil
}

// pairing is a pair while it is made. Both sides go through the same stages; a frame tells the other that a stage is done.
type pairing struct {
	*talk
	d            *Device
	mine, theirs hello
	piece        int // bytes, agreed
	buffer       int // MiB, agreed
	bond         *bond
	slot         *slot // of the warm-up
}

// make goes through the stages. The permission to make a pair is held from the third on; the order of the devices' keys
// keeps two devices from waiting for each other.
func (p *pairing) make(ctx context.Context) error {
	if p.d.isStuck() {
		return ErrBusy
	}
	if err := p.greet(ctx); err != nil {
		return err
	}
	if p.mine.key() > p.theirs.key() {
		if _, err := p.expect(ctx, kindReady); err != nil {
			return err
		}
	}
	if err := p.lock(ctx); err != nil {
		return err
	}
	if err := p.d.reserve(ctx); err != nil {
		p.d.unlock()
		return err
	}
	if err := p.build(ctx); err != nil {
		return err
	}
	p.d.unlock()
	return nil
}

// lock takes the permission to make a pair.
func (p *pairing) lock(ctx context.Context) error {
	look := time.NewTicker(stuckEvery)
	defer look.Stop()
	for {
		select {
		case p.d.making <- struct{}{}:
			return nil
		case <-look.C:
			if p.d.isStuck() {
				return ErrBusy
			}
		case <-p.lost:
			return p.why
		case <-ctx.Done():
			return fmt.Errorf("wait for another pair that is being made: %w", context.Cause(ctx))
		}
	}
}

// stuckEvery is the pause between two looks whether the pair that is waited for hangs in its creation.
const stuckEvery = 100 * time.Millisecond

func (d *Device) unlock() { <-d.making }

func (d *Device) isStuck() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stuck
}

func (d *Device) setStuck(stuck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = stuck
}

// greet exchanges hellos and agrees on the settings.
func (p *pairing) greet(ctx context.Context) error {
	b, err := p.mine.encode()
	if err != nil {
		return fmt.Errorf("write hello: %w", err)
	}
	if err := p.send(frame{kind: kindHello, data: b}); err != nil {
		return err
	}
	f, err := p.expect(ctx, kindHello)
	if err != nil {
		return err
	}
	if p.theirs, err = parseHello(f.data); err != nil {
		return err
	}
	if err := agree(p.mine, p.theirs); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	p.piece = min(p.mine.Piece, p.theirs.Piece)
	p.buffer = min(p.mine.BufferMiB, p.theirs.BufferMiB)
	return nil
}

// build makes the communicator, then its streams, then warms it up. On error everything is given back, the permission
// and the budget last, when HCCL is done with it.
func (p *pairing) build(ctx context.Context) error {
	comm, err := p.create(ctx)
	if err != nil {
		return err
	}
	p.bond = comm
	state := endDrained
	if err = p.d.steward.do(ctx, func() error { return comm.furnish(p.d.lib) }); err == nil {
		if err = p.meet(ctx, kindMade); err == nil {
			state, err = p.warm(ctx)
		}
	}
	if err != nil {
		p.d.bury(comm, state, p.giveBack)
		return err
	}
	return nil
}

// giveBack ends a pair that was not made, when nothing of it is at work any more.
func (p *pairing) giveBack(err error) {
	if p.slot != nil && err == nil {
		p.d.pool.put(p.slot)
	}
	p.d.unlock()
}

// meet waits until both sides are at a stage.
func (p *pairing) meet(ctx context.Context, k kind) error {
	if err := p.send(frame{kind: k}); err != nil {
		return err
	}
	_, err := p.expect(ctx, k)
	return err
}

// create makes the communicator: rank 0 asks for the root info and sends it with a fresh name, then both are in the
// creation at once. If it fails, or the peer is lost meanwhile, permission and budget come back when HCCL has returned.
func (p *pairing) create(ctx context.Context) (*bond, error) {
	give := func() {
		p.d.release()
		p.d.unlock()
	}
	name, info, err := p.root(ctx)
	if err != nil {
		give()
		return nil, err
	}
	b := newBond(name)
	config := acl.CommConfig{BufferMiB: p.buffer, Name: name, ExecTimeout: min(p.mine.ExecSecs, p.theirs.ExecSecs)}
	result := p.d.builder.start(func() (err error) {
		b.comm, err = p.d.lib.CommInitRootInfo(2, info, p.mine.Rank, config)
		return err
	})
	select {
	case err = <-result:
		if err != nil {
			give()
			return nil, fmt.Errorf("create communicator: %w", err)
		}
		return b, nil
	case <-p.lost:
		err = p.why
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.d.setStuck(true) // there is no way to call the creation off
	p.d.log.Warn("creation of a pair is abandoned, no other can begin until HCCL gives it up",
		"device", p.d.cfg.Device, "communicator", name, "cause", err)
	p.d.live.Go(func() {
		if late := <-result; late == nil {
			late = p.d.destroyComm(b)
			p.d.log.Info("abandoned creation came back", "communicator", name, "err", late)
		}
		p.d.setStuck(false)
		give()
	})
	return nil, fmt.Errorf("create communicator: %w", err)
}

// root agrees on name and root info of the communicator. Both sides have said ready before: a root info cannot be called
// back.
func (p *pairing) root(ctx context.Context) (string, *acl.RootInfo, error) {
	if err := p.send(frame{kind: kindReady}); err != nil {
		return "", nil, err
	}
	if p.mine.key() < p.theirs.key() {
		if _, err := p.expect(ctx, kindReady); err != nil {
			return "", nil, err
		}
	}
	if p.mine.Rank == 1 {
		f, err := p.expect(ctx, kindRoot)
		if err != nil {
			return "", nil, err
		}
		return parseRoot(f.data)
	}
	name := "hcclps-" + rand.Text()
	var info *acl.RootInfo
	err := p.d.builder.do(ctx, func() (err error) {
		info, err = p.d.lib.GetRootInfo()
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("become the root of a communicator: %w", err)
	}
	return name, info, p.send(frame{kind: kindRoot, data: append(info[:], name...)})
}

// maxName is the longest name of a communicator.
const maxName = 127

func parseRoot(b []byte) (string, *acl.RootInfo, error) {
	name := b[min(len(b), acl.RootInfoBytes):]
	if len(b) <= acl.RootInfoBytes || len(name) > maxName || bytes.IndexByte(name, 0) >= 0 {
		return "", nil, fmt.Errorf("%w: root info of %d bytes", errFrame, len(b))
	}
	info := acl.RootInfo(b[:acl.RootInfoBytes])
	return string(name), &info, nil
}

// warmBytes is the length of the first message of each direction.
const warmBytes = 256

// warm issues the first operator of each direction, the one from the device with the lower key first. HCCL keeps the
// issuer in them until the peer is there; both sides hold their devices' permission, so no third waits for one of the two.
func (p *pairing) warm(ctx context.Context) (ending, error) {
	var err error
	if p.slot, err = p.d.pool.get(ctx); err != nil {
		return endDrained, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.d.cfg.WarmTimeout, errWarm)
	defer cancel()
	first := p.mine.Rank
	if p.mine.key() > p.theirs.key() {
		first = p.theirs.Rank
	}
	for _, flow := range []int{first, 1 - first} {
		if state, err := p.warmFlow(ctx, flow, p.slot); err != nil {
			return state, fmt.Errorf("warm up rank %d to %d: %w", flow, 1-flow, err)
		}
	}
	if err := p.meet(ctx, kindWarmed); err != nil {
		return endDrained, err
	}
	p.d.pool.put(p.slot)
	return endDrained, nil
}

var errWarm = errors.New("the first operator took too long")

// warmFlow sends a known message in one direction, and looks at it on the other side.
func (p *pairing) warmFlow(ctx context.Context, flow int, s *slot) (ending, error) {
	lib, b := p.d.lib, p.bond
	sends := flow == p.mine.Rank
	happened := make(chan error, 1)
	for i := range warmBytes {
		s.memory[i] = 0
		if sends {
			s.memory[i] = byte(i*7 + flow)
		}
	}
	issued := p.d.issuer.start(func() error {
		err := lib.MemcpyAsync(s.dev, s.host, warmBytes, acl.HostToDevice, b.stream)
		switch {
		case err != nil:
		case sends:
			err = lib.Send(s.dev, warmBytes, acl.Uint8, 1-p.mine.Rank, b.comm, b.stream)
		default:
			err = lib.Recv(s.dev, warmBytes, acl.Uint8, 1-p.mine.Rank, b.comm, b.stream)
		}
		if err == nil && !sends {
			err = lib.MemcpyAsync(s.host, s.dev, warmBytes, acl.DeviceToHost, b.stream)
		}
		if err == nil {
			err = lib.RecordEvent(b.marks[0].end, b.stream)
		}
		if err == nil {
			p.d.waiter.await(b.ops, b.marks[0].end, func(err error) { happened <- err })
		}
		return err
	})
	state := endStuck
	for _, stage := range []<-chan error{issued, happened} {
		select {
		case err := <-stage:
			if err != nil {
				return endBroken, err
			}
			state = endBroken
		case <-p.lost:
			return state, p.why
		case <-ctx.Done():
			return state, context.Cause(ctx)
		}
	}
	for i := range warmBytes {
		if !sends && s.memory[i] != byte(i*7+flow) {
			return endBroken, fmt.Errorf("byte %d is %#x: %w", i, s.memory[i], p2p.ErrCorrupt)
		}
	}
	return endDrained, nil
}
