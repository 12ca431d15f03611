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
// an epoch over all workers, and says with which cursor each step goes on. A
// step has up to TrainOptions.Accumulate batches.
type feed interface {
	// next fills b. With ahead the step under way has not been pushed yet, and
	// what depends on that is not known: the answer may be later, and b is empty.
	next(ctx context.Context, b *dataset.Batch, ahead bool) (turn, error)
	// cursor is the data position after the batch that next gave last.
	cursor() []byte
	// resume goes to a cursor; nil is the start.
	resume(cursor []byte) error
	// at is the epoch of the batch that next gave last.
	at() int
}

// turn is what a feed has next.
type turn uint8

const (
	over    turn = iota // nothing: all epochs are done
	later               // ask again when the step under way has been pushed
	another             // one more batch of the step under way
	fresh               // the first batch of a step; an empty one makes a step without data
)

// newFeed deals batches by number under bsp, and claims ranges from the meta
// group otherwise.
func (c *Client) newFeed(src dataset.Source, epochs, accumulate int) feed {
	p := c.params
	if p.Sync == BSP || p.World == 1 {
		return &dealt{src: src, rank: c.Rank(), world: c.World(), epochs: epochs, accumulate: accumulate}
	}
	return &claimed{s: c.servers, src: src, epochs: epochs, accumulate: accumulate}
}

// dealt is the bsp order: with n batches a step, a step that begins at batch b of an epoch has world x n of them, of which rank r
// has the n from b + r x n on, so that n batches of m rows are
// the rows of one batch of n x m, in their order. Every worker reads the stream,
// so that all agree on how many steps an epoch has; in the last one some may have
// fewer batches, or none and push an empty step.
type dealt struct {
	src         dataset.Source
	rank, world int
	epochs      int
	accumulate  int // batches a step
	epoch       int
	first       int // batch of the epoch that the step under way begins with
	done        int // batches of the epoch up to the end of that step
	given       int // batches of the step that next has given; 0: no more to come
	probe       dataset.Batch
}

func (d *dealt) next(_ context.Context, b *dataset.Batch, _ bool) (turn, error) {
	if d.given > 0 && d.given < d.accumulate {
		ok, err := d.read(d.first+d.rank*d.accumulate+d.given, b)
		if err != nil {
			return over, err
		}
		if ok {
			d.given++
			return another, nil
		}
	}
	for d.given = 0; d.epoch < d.epochs; d.epoch, d.done = d.epoch+1, 0 {
		first := d.done
		probe := b
		if d.rank != 0 {
			probe = &d.probe
		}
		ok, err := d.read(first, probe)
		if err != nil {
			return over, err
		}
		if !ok {
			continue // the epoch has no such step
		}
		if d.rank != 0 {
			if ok, err = d.read(first+d.rank*d.accumulate, b); err != nil {
				return over, err
			}
		}
		d.first, d.done = first, first+d.world*d.accumulate
		if d.given = 1; !ok {
			d.given = 0
			*b = dataset.Batch{}
		}
		return fresh, nil
	}
	return over, nil
}

func (d *dealt) read(batch int, b *dataset.Batch) (bool, error) {
	if err := d.src.Seek(d.epoch, batch); err != nil {
		return false, err
	}
	return d.src.Next(b)
}

func (d *dealt) at() int { return d.epoch }

// A bsp cursor: u32 epoch, u32 batches a step - 1 and countsBatches, u64 batches of the epoch that are behind it. These and not steps, since
// the number of workers may change.
const (
	dealtCursor   = 16
	countsBatches = 1 << 31
)

func (d *dealt) cursor() []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, wire.MaxCursor), uint32(d.epoch))
	b = binary.LittleEndian.AppendUint32(b, uint32(d.accumulate-1)|countsBatches)
	return binary.LittleEndian.AppendUint64(b, uint64(d.done))
}

func (d *dealt) resume(cursor []byte) error {
	d.epoch, d.done, d.given = 0, 0, 0
	if cursor == nil {
		return nil
	}
	if len(cursor) != dealtCursor || binary.LittleEndian.Uint32(cursor[4:])&countsBatches == 0 {
		return fmt.Errorf("resume data: cursor of %d bytes is not one of bsp: was the job run with another --sync, or by another version?", len(cursor))
	}
	if n := int(binary.LittleEndian.Uint32(cursor[4:])&^countsBatches) + 1; n != d.accumulate {
		return fmt.Errorf("resume data: the job has made steps of %d batches, now they are to be of %d: give the same Accumulate", n, d.accumulate)
	}
	d.epoch = int(binary.LittleEndian.Uint32(cursor))
	d.done = int(binary.LittleEndian.Uint64(cursor[8:]))
	return nil
}

// claimed is the ssp and asp order: workers claim ranges of batches as they
// get to them, so a slow one has fewer. A step's batches are of one range.
type claimed struct {
	s          *servers
	src        dataset.Source
	epochs     int
	accumulate int
	claim      wire.Claim
	batch      uint64 // next one
	given      int    // batches of the step under way
	end        struct {
		epoch   uint32
		batches uint64
	}
}

func (f *claimed) next(ctx context.Context, b *dataset.Batch, ahead bool) (turn, error) {
	for {
		if f.claim.Number > 0 && int(f.claim.Epoch) >= f.epochs {
			return over, nil
		}
		if f.claim.Number == 0 || f.batch >= f.claim.To {
			if f.given = 0; ahead {
				return later, nil // a range is given back when all of it is pushed
			}
			tick, err := f.more(ctx)
			if err != nil {
				return over, err
			}
			if tick {
				*b = dataset.Batch{}
				return fresh, nil
			}
			continue
		}
		if err := f.src.Seek(int(f.claim.Epoch), int(f.batch)); err != nil {
			return over, err
		}
		ok, err := f.src.Next(b)
		if err != nil {
			return over, err
		}
		if ok {
			f.batch++
			return f.turn(), nil
		}
		// The epoch ends somewhere in this range, or before it.
		f.end.epoch, f.end.batches = f.claim.Epoch, f.batch
		f.batch = f.claim.To
	}
}

// turn counts a batch.
func (f *claimed) turn() turn {
	if f.given > 0 && f.given < f.accumulate {
		f.given++
		return another
	}
	f.given = 1
	return fresh
}

func (f *claimed) at() int { return int(f.claim.Epoch) }

// waitMore is how long to wait before asking again, when only others have
// batches left.
const waitMore = 20 * time.Millisecond

// more claims the next range. It reports true when a step without data is due:
// under ssp the workers that have the last batches must not wait for this one.
func (f *claimed) more(ctx context.Context) (tick bool, err error) {
	req := wire.ClaimRequest{SessionRef: f.s.ref(), Have: f.claim.Number, Epochs: uint32(f.epochs)}
	if f.end.batches > 0 {
		req.EndOf, req.End = f.end.epoch, f.end.batches
		f.end.batches = 0
	}
	var got wire.Claim
	if err := f.s.control(ctx, "claim data", wire.KindClaim, req, &got); err != nil {
		return false, err
	}
	if got.Wait == "" {
		f.claim, f.batch = got, got.From
		return false, nil
	}
	f.s.log.Debug("no batch left but what others have", "workers", got.Wait)
	again := time.NewTimer(waitMore)
	defer again.Stop()
	select {
	case <-again.C:
		return f.s.session.params.Sync == SSP, nil
	case <-ctx.Done():
		return false, fmt.Errorf("wait for the last batches of %s: %w", got.Wait, context.Cause(ctx))
	}
}

func (f *claimed) cursor() []byte {
	return wire.ClaimCursor{Claim: f.claim, At: f.batch}.Append(nil)
}

func (f *claimed) resume(cursor []byte) error {
	f.claim, f.batch, f.given = wire.Claim{}, 0, 0
	if cursor == nil {
		return nil
	}
	c, err := wire.DecodeClaimCursor(cursor)
	if err != nil {
		return fmt.Errorf("resume data: %w: was the job run with another --sync?", err)
	}
	f.claim, f.batch = c.Claim, c.At
	return nil
}
