package hccl

import (
	"context"
	"fmt"

	"hcclps/p2p/hccl/acl"
)

const (
	mib = 1 << 20
	// linkMiB is what one link may take of the device for its queue pair.
	linkMiB = 3
)

// pairCost is the most device memory a pair takes: HCCL's two buffers and its own megabyte, a link each way, and the staged pieces.
func (d *Device) pairCost() int64 {
	return (2*int64(d.cfg.BufferMiB)+1+flows*linkMiB)*mib + flows*int64(d.cfg.Depth)*int64(d.cfg.Piece)
}

// reserve counts one more pair in, or says by how much it does not fit.
func (d *Device) reserve(ctx context.Context) error {
	var free, total int64
	err := d.steward.do(ctx, func() (err error) {
		free, total, err = d.lib.MemInfo(acl.HBM)
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for free device memory: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	cost := d.pairCost()
	if d.pairs >= d.cfg.MaxPairs {
		return fmt.Errorf("add pair %d of %d MiB to the %d MiB that %d pairs of device %d may take: allow more (MaxPairs, --hccl-pairs) or make them smaller (BufferMiB, --hccl-buffer): %w",
			d.pairs+1, cost/mib, cost*int64(d.cfg.MaxPairs)/mib, d.cfg.MaxPairs, d.cfg.Device, ErrBudget)
	}
	if free < cost {
		return fmt.Errorf("add pair %d of %d MiB: device %d has %d MiB free of %d: make them smaller (BufferMiB, --hccl-buffer): %w",
			d.pairs+1, cost/mib, d.cfg.Device, free/mib, total/mib, ErrBudget)
	}
	d.pairs++
	return nil
}

// release counts a pair out.
func (d *Device) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pairs--
}

// Status is what a device holds at a moment.
type Status struct {
	Pairs     int   // that hold memory, or are being made or given back
	MaxPairs  int   // by the Config
	PairBytes int64 // the most device memory a pair takes
	Slots     int   // staging pieces that exist, each in host and device memory
	FreeSlots int   // those nobody uses
	Stuck     bool  // no pair can be made now, see ErrBusy
}

// Status tells what the device holds.
func (d *Device) Status() Status {
	made, free := d.pool.counts()
	d.mu.Lock()
	defer d.mu.Unlock()
	return Status{d.pairs, d.cfg.MaxPairs, d.pairCost(), made, free, d.stuck}
}
