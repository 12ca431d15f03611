package meta

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hcclps/ps/wire"
)

// claimSize is the number of batches in a range.
const claimSize = 16

// claims hands the batches of each epoch out once, in ascending order, to
// workers that ask for ranges (ssp and asp).
type claims struct {
	Last  uint64       `json:"last"`  // number given last
	Epoch uint32       `json:"epoch"` // fresh ranges begin here ...
	From  uint64       `json:"from"`  // ... at this batch
	Ends  []uint64     `json:"ends"`  // batches of epoch i, 0 = not known yet
	Out   []outClaim   `json:"out"`   // being worked on, ascending number
	Pool  []wire.Claim `json:"pool"`  // came back from expelled workers, in order of (epoch, from)
}

// outClaim is a range and who works on it.
type outClaim struct {
	wire.Claim
	Worker string `json:"worker"`
}

// next answers a worker that has pushed all batches of claim number `have`:
// the claim it holds already if that is a later one (its answer was lost, or it
// was restarted), else the next. When only others have batches of the first
// `epochs` epochs, it waits for them.
func (c *claims) next(worker string, have uint64, epochs uint32) wire.Claim {
	i := c.of(worker)
	if i >= 0 && c.Out[i].Number > have {
		return c.Out[i].Claim
	}
	if i >= 0 {
		c.Out = slices.Delete(c.Out, i, i+1)
	}
	if busy := c.others(epochs); busy != "" && len(c.Pool) == 0 && c.fresh() >= epochs {
		return wire.Claim{Number: have, Wait: busy}
	}
	got := c.take()
	c.Last++
	got.Number = c.Last
	c.Out = append(c.Out, outClaim{Claim: got, Worker: worker})
	return got
}

// others names the workers that have ranges of the first epochs.
func (c *claims) others(epochs uint32) string {
	var names []string
	for _, o := range c.Out {
		if o.Epoch < epochs {
			names = append(names, o.Worker)
		}
	}
	return strings.Join(names, ", ")
}

// fresh is the epoch of the next range that nobody had yet.
func (c *claims) fresh() uint32 {
	if end := c.end(c.Epoch); end > 0 && c.From >= end {
		return c.Epoch + 1
	}
	return c.Epoch
}

// take removes the first range nobody works on.
func (c *claims) take() wire.Claim {
	if len(c.Pool) > 0 {
		got := c.Pool[0]
		c.Pool = slices.Delete(c.Pool, 0, 1)
		return got
	}
	if e := c.fresh(); e != c.Epoch {
		c.Epoch, c.From = e, 0
	}
	got := wire.Claim{Epoch: c.Epoch, From: c.From, To: c.From + claimSize}
	if end := c.end(c.Epoch); end > 0 {
		got.To = min(got.To, end)
	}
	c.From = got.To
	return got
}

func (c *claims) end(epoch uint32) uint64 {
	if int(epoch) < len(c.Ends) {
		return c.Ends[epoch]
	}
	return 0
}

// setEnd records that an epoch has no batch `end` or later. Who finds the end of
// the data first may have looked beyond it, so the lowest report counts; what was
// claimed beyond is cut.
func (c *claims) setEnd(epoch uint32, end uint64) error {
	if epoch > c.Epoch {
		return fmt.Errorf("epoch %d has %d batches, but nothing after epoch %d was claimed", epoch, end, c.Epoch)
	}
	if known := c.end(epoch); known > 0 {
		end = min(end, known)
	}
	for len(c.Ends) <= int(epoch) {
		c.Ends = append(c.Ends, 0)
	}
	c.Ends[epoch] = end
	for i := range c.Out {
		clip(&c.Out[i].Claim, epoch, end)
	}
	for i := range c.Pool {
		clip(&c.Pool[i], epoch, end)
	}
	c.Out = slices.DeleteFunc(c.Out, func(o outClaim) bool { return o.From >= o.To })
	c.Pool = slices.DeleteFunc(c.Pool, func(r wire.Claim) bool { return r.From >= r.To })
	return nil
}

func clip(r *wire.Claim, epoch uint32, end uint64) {
	if r.Epoch == epoch {
		r.To = min(r.To, end)
	}
}

// giveBack puts what a worker that is gone has not pushed of its range into the
// pool. Its cursor says how far it came; nil: it pushed nothing.
func (c *claims) giveBack(worker string, cursor []byte) {
	i := c.of(worker)
	if i < 0 {
		return
	}
	r := c.Out[i].Claim
	c.Out = slices.Delete(c.Out, i, i+1)
	if cur, err := wire.DecodeClaimCursor(cursor); err == nil && cur.Number == r.Number {
		r.From = max(r.From, cur.At)
	}
	if r.Number = 0; r.From >= r.To {
		return
	}
	at, _ := slices.BinarySearchFunc(c.Pool, r, func(a, b wire.Claim) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.From, b.From))
	})
	c.Pool = slices.Insert(c.Pool, at, r)
}

// forget drops the range of a worker that has finished.
func (c *claims) forget(worker string) {
	if i := c.of(worker); i >= 0 {
		c.Out = slices.Delete(c.Out, i, i+1)
	}
}

func (c *claims) of(worker string) int {
	return slices.IndexFunc(c.Out, func(o outClaim) bool { return o.Worker == worker })
}
