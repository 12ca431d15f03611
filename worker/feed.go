package worker

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"hcclps/ps/wire"
	"hcclps/worker/dataset"
)

// feed gives a worker its batches, in an order that makes every row count once
// an epoch over all workers, and says with which cursor each goes on.
type feed interface {
	// next fills b. An empty batch is a step without data. It reports false
	// when all epochs are done.
	next(ctx context.Context, b *dataset.Batch) (bool, error)
	// cursor is the data position after the batch that next gave last.
	cursor() []byte
	// resume goes to a cursor; nil is the start.
	resume(cursor []byte) error
}

// newFeed deals batches by number under bsp, and claims ranges from the meta
// group otherwise.
func (c *Client) newFeed(src dataset.Source, epochs int) feed {
	p := c.session.params
	if p.Sync == BSP || p.World == 1 {
		return &dealt{src: src, rank: c.cfg.Rank, world: int(p.World), epochs: epochs}
	}
	return &claimed{c: c, src: src, epochs: epochs}
}

// dealt is the bsp order: in step k of an epoch, rank r has batch k x world + r.
// Every worker reads the stream, so that all agree on how many steps an epoch
// has; in the last one some may have no batch and push an empty step.
type dealt struct {
	src         dataset.Source
	rank, world int
	epochs      int
	epoch, step int
	probe       dataset.Batch
}

func (d *dealt) next(_ context.Context, b *dataset.Batch) (bool, error) {
	for ; d.epoch < d.epochs; d.epoch, d.step = d.epoch+1, 0 {
		first := d.step * d.world
		probe := b
		if d.rank != 0 {
			probe = &d.probe
		}
		ok, err := d.at(first, probe)
		if err != nil {
			return false, err
		}
		if !ok {
			continue // the epoch has no such step
		}
		if d.rank != 0 {
			if ok, err = d.at(first+d.rank, b); err != nil {
				return false, err
			}
			if !ok {
				*b = dataset.Batch{}
			}
		}
		d.step++
		return true, nil
	}
	return false, nil
}

func (d *dealt) at(batch int, b *dataset.Batch) (bool, error) {
	if err := d.src.Seek(d.epoch, batch); err != nil {
		return false, err
	}
	return d.src.Next(b)
}

func (d *dealt) cursor() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(d.epoch)), uint64(d.step))
}

func (d *dealt) resume(cursor []byte) error {
	d.epoch, d.step = 0, 0
	if cursor == nil {
		return nil
	}
	if len(cursor) != 16 {
		return fmt.Errorf("resume data: cursor of %d bytes is not one of bsp: was the job run with another --sync?", len(cursor))
	}
	d.epoch = int(binary.LittleEndian.Uint64(cursor))
	d.step = int(binary.LittleEndian.Uint64(cursor[8:]))
	return nil
}

// claimed is the ssp and asp order: workers claim ranges of batches as they
// get to them, so a slow one has fewer.
type claimed struct {
	c      *Client
	src    dataset.Source
	epochs int
	claim  wire.Claim
	at     uint64 // next batch
	end    struct {
		epoch   uint32
		batches uint64
	}
}

func (f *claimed) next(ctx context.Context, b *dataset.Batch) (bool, error) {
	for {
		if f.claim.Number > 0 && int(f.claim.Epoch) >= f.epochs {
			return false, nil
		}
		if f.claim.Number == 0 || f.at >= f.claim.To {
			if tick, err := f.more(ctx); err != nil || tick {
				*b = dataset.Batch{}
				return tick, err
			}
			continue
		}
		if err := f.src.Seek(int(f.claim.Epoch), int(f.at)); err != nil {
			return false, err
		}
		ok, err := f.src.Next(b)
		if err != nil {
			return false, err
		}
		if ok {
			f.at++
			return true, nil
		}
		// The epoch ends somewhere in this range, or before it.
		f.end.epoch, f.end.batches = f.claim.Epoch, f.at
		f.at = f.claim.To
	}
}

// waitMore is how long to wait before asking again, when only others have
// batches left.
const waitMore = 20 * time.Millisecond

// more claims the next range. It reports true when a step without data is due:
// under ssp the workers that have the last batches must not wait for this one.
func (f *claimed) more(ctx context.Context) (tick bool, err error) {
	req := wire.ClaimRequest{SessionRef: f.c.ref(), Have: f.claim.Number, Epochs: uint32(f.epochs)}
	if f.end.batches > 0 {
		req.EndOf, req.End = f.end.epoch, f.end.batches
		f.end.batches = 0
	}
	var got wire.Claim
	if err := f.c.servers.control(ctx, "claim data", wire.KindClaim, req, &got); err != nil {
		return false, err
	}
	if got.Wait == "" {
		f.claim, f.at = got, got.From
		return false, nil
	}
	f.c.cfg.Logger.Debug("no batch left but what others have", "workers", got.Wait)
	again := time.NewTimer(waitMore)
	defer again.Stop()
	select {
	case <-again.C:
		return f.c.session.params.Sync == SSP, nil
	case <-ctx.Done():
		return false, fmt.Errorf("wait for the last batches of %s: %w", got.Wait, context.Cause(ctx))
	}
}

func (f *claimed) cursor() []byte {
	return wire.ClaimCursor{Claim: f.claim, At: f.at}.Append(nil)
}

func (f *claimed) resume(cursor []byte) error {
	f.claim, f.at = wire.Claim{}, 0
	if cursor == nil {
		return nil
	}
	c, err := wire.DecodeClaimCursor(cursor)
	if err != nil {
		return fmt.Errorf("resume data: %w: was the job run with another --sync?", err)
	}
	f.claim, f.at = c.Claim, c.At
	return nil
}
