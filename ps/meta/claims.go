package meta

import (
	"cmp"
	"fmt"
	"slices"

	"hcclps/ps/wire"
)

// ClaimSize is the number of batches in a range.
const ClaimSize = 16

// Claims hands the batches of each epoch out once, in ascending order, to
// workers that ask for ranges (ssp and asp).
type Claims struct {
	Last  uint64       `json:"last"`  // number given last
	Epoch uint32       `json:"epoch"` // fresh ranges begin here ...
	From  uint64       `json:"from"`  // ... at this batch
	Ends  []uint64     `json:"ends"`  // batches of epoch i, 0 = not known yet
	Out   []OutClaim   `json:"out"`   // being worked on, ascending number
	Pool  []wire.Claim `json:"pool"`  // came back from expelled workers, in order of (epoch, from)
}

// OutClaim is a range and who works on it.
type OutClaim struct {
	wire.Claim
	Worker string `json:"worker"`
}

// next answers a worker that has pushed all batches of claim number `have`:
// the claim it holds already if that is a later one (its answer was lost, or it
// was restarted), else the next.
func (c *Claims) next(worker string, have uint64) wire.Claim {
	i := c.of(worker)
	if i >= 0 && c.Out[i].Number > have {
		return c.Out[i].Claim
	}
	if i >= 0 {
		c.Out = slices.Delete(c.Out, i, i+1)
	}
	got := c.take()
	c.Last++
	got.Number = c.Last
	c.Out = append(c.Out, OutClaim{Claim: got, Worker: worker})
	return got
}

// take removes the first range nobody works on.
func (c *Claims) take() wire.Claim {
	if len(c.Pool) > 0 {
		got := c.Pool[0]
		c.Pool = slices.Delete(c.Pool, 0, 1)
		return got
	}
	if end := c.end(c.Epoch); end > 0 && c.From >= end {
		c.Epoch, c.From = c.Epoch+1, 0
	}
	got := wire.Claim{Epoch: c.Epoch, From: c.From, To: c.From + ClaimSize}
	if end := c.end(c.Epoch); end > 0 {
		got.To = min(got.To, end)
	}
	c.From = got.To
	return got
}

func (c *Claims) end(epoch uint32) uint64 {
	if int(epoch) < len(c.Ends) {
		return c.Ends[epoch]
	}
	return 0
}

// setEnd records that an epoch has no batch `end` or later. Who finds the end of
// the data first may have looked beyond it, so the lowest report counts; what was
// claimed beyond is cut.
func (c *Claims) setEnd(epoch uint32, end uint64) error {
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
	c.Out = slices.DeleteFunc(c.Out, func(o OutClaim) bool { return o.From >= o.To })
	c.Pool = slices.DeleteFunc(c.Pool, func(r wire.Claim) bool { return r.From >= r.To })
	return nil
}

func clip(r *wire.Claim, epoch uint32, end uint64) {
	if r.Epoch == epoch {
		r.To = min(r.To, end)
	}
}

// giveBack puts the range of a worker that is gone into the pool.
func (c *Claims) giveBack(worker string) {
	i := c.of(worker)
	if i < 0 {
		return
	}
	r := c.Out[i].Claim
	r.Number = 0
	c.Out = slices.Delete(c.Out, i, i+1)
	at, _ := slices.BinarySearchFunc(c.Pool, r, func(a, b wire.Claim) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.From, b.From))
	})
	c.Pool = slices.Insert(c.Pool, at, r)
}

// forget drops the range of a worker that has finished.
func (c *Claims) forget(worker string) {
	if i := c.of(worker); i >= 0 {
		c.Out = slices.Delete(c.Out, i, i+1)
	}
}

func (c *Claims) of(worker string) int {
	return slices.IndexFunc(c.Out, func(o OutClaim) bool { return o.Worker == worker })
}
