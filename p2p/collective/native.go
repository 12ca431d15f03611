package collective

import (
	"context"
	"fmt"
	"slices"

	"hcclps/p2p"
)

// Native is the collectives that a backend has itself, such as HCCL's between NPUs; p2p/backend makes one. A Group calls Do from one goroutine at a time.
type Native interface {
	// Can says whether Do does an operation, by its Op, DType and Reduction. All ranks have the same answer. Where nothing is reduced, DType is Uint8.
	Can(c Call) bool
	// Do leaves in recv what the method of Group that c.Op names says, with Sum for Avg. Host memory is staged. All ranks have called the same. If ctx ends first,
	// Do returns the cause, and Close lets go of the buffers.
	Do(ctx context.Context, c Call, send, recv p2p.Buffer) error
	// Close ends what is under way, and may be called more than once.
	Close() error
}

// asBytes is the element type by which an operation that reduces nothing is asked about.
const asBytes = p2p.Uint8

// natively says whether an operation is left to the backend: if it can do it, the order of reduction is free and no other algorithm is pinned.
func (g *Group) natively(c Call) bool {
	if g.cfg.Native == nil || g.Size() == 1 || c.Op.reduces() && g.cfg.RankOrder || !slices.Contains(supports(c.Op), Natively) {
		return false
	}
	if pinned := g.cfg.Algorithms[c.Op]; pinned != (Choice{}) && pinned != (Choice{Level1: Natively}) {
		return false
	}
	if !c.Op.reduces() {
		c.DType = asBytes
	}
	return g.cfg.Native.Can(c)
}

// postNative posts an operation that the backend does.
func (g *Group) postNative(c Call, send, recv p2p.Buffer, tag uint32, after func(error)) *Work {
	c.Algorithm = Choice{Level1: Natively}
	return g.postTagged(c, max(send.Len(), recv.Len()), tag, func(t team, v vector) error {
		// HCCL does not say who calls something else, it hangs: so all ranks compare calls first. Nobody gets through this before all are in it.
		if err := disseminate(t); err != nil {
			return err
		}
		call := t.call
		if !call.Op.reduces() {
			call.DType = asBytes
		}
		if err := g.cfg.Native.Do(t.ctx, call, send, recv); err != nil {
			return fmt.Errorf("%v by the backend: %w", call.Op, err)
		}
		t.progress.Add(1)
		if call.Op.reduces() && (call.Op != Reduce || t.me == call.Root) {
			v.finish(recv.Host(), t.size())
		}
		return nil
	}, after)
}

// onDevice checks buffers of device memory, which only the backend can reduce; an average is divided by the host.
func (a arguments) onDevice(send, recv p2p.Buffer) error {
	switch {
	case !send.IsDevice() && !recv.IsDevice():
		return nil
	case send.IsDevice() != recv.IsDevice():
		return fmt.Errorf("one buffer of the host and one of the device: %w", errDevice)
	case a.call.Reduction == Avg || a.call.Wire != 0 || !a.g.natively(a.call):
		return errDevice
	}
	return nil
}
