package collbench

import (
	"context"
	"fmt"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// operation is one collective at one size, ready to be called.
type operation struct {
	g     *collective.Group
	spec  Spec
	count int // elements of a part, or of all where there are no parts
	size  int // bytes in the sense of nccl-tests: of the larger of what is sent and received

	send, recv []byte
	fused      *fused // nil: one call
}

// newOperation sets an operation up in buffers that have room for any of the sizes.
func newOperation(g *collective.Group, spec Spec, size int, a, b []byte) (*operation, error) {
	o := &operation{g: g, spec: spec}
	width, parts := spec.DType.Size(), 1
	if spec.Op != collective.AllReduce && spec.Op != collective.Broadcast {
		parts = g.Size()
	}
	o.count = max(1, size/(width*parts))
	o.size = o.count * width * parts
	part, me := o.count*width, g.Rank()
	o.send = a[:o.size]
	switch {
	case spec.Op == collective.AllGather && spec.OutOfPlace:
		o.send, o.recv = a[:part], b[:o.size]
	case spec.Op == collective.AllGather:
		o.send, o.recv = a[me*part:(me+1)*part], a[:o.size]
	case spec.Op == collective.ReduceScatter && spec.OutOfPlace:
		o.recv = b[:part]
	case spec.Op == collective.ReduceScatter:
		o.recv = a[me*part : (me+1)*part]
	case spec.Op == collective.AlltoAll, spec.OutOfPlace:
		o.recv = b[:o.size]
	default:
		o.recv = o.send
	}
	if spec.Tensors == 0 || spec.Op != collective.AllReduce {
		return o, nil
	}
	var err error
	o.fused, err = newFused(g, spec, o.send)
	return o, err
}

// room is how many bytes a buffer needs for an operation of a size.
func (s Spec) room(ranks, size int) int { return max(size, ranks*s.DType.Size()) }

// call does the operation once.
func (o *operation) call(ctx context.Context) error {
	send, recv, t, r := p2p.Bytes(o.send), p2p.Bytes(o.recv), o.spec.DType, o.spec.Reduction
	var w *collective.Work
	switch o.spec.Op {
	case collective.AllReduce:
		if o.fused != nil {
			return o.fused.call(ctx)
		}
		w = o.g.AllReduce(send, recv, t, r)
	case collective.ReduceScatter:
		w = o.g.ReduceScatter(send, recv, t, r)
	case collective.AllGather:
		w = o.g.AllGather(send, recv, t)
	case collective.Broadcast:
		w = o.g.Broadcast(recv, t, 0)
	case collective.AlltoAll:
		w = o.g.AlltoAll(send, recv, t)
	default:
		return fmt.Errorf("measure %v: not one of those that can be", o.spec.Op)
	}
	return w.Wait(ctx)
}

// check does the operation with contents that are known, and counts the wrong elements here.
func (o *operation) check(ctx context.Context) (int, error) {
	clear(o.recv)
	o.fill()
	if o.fused != nil {
		o.fused.scatter(o.send)
	}
	if err := o.call(ctx); err != nil {
		return 0, err
	}
	if o.fused != nil {
		o.fused.gather(o.send)
	}
	return o.wrong(), nil
}

func (o *operation) fill() {
	t, me, ranks := o.spec.DType, o.g.Rank(), o.g.Size()
	part := o.count * t.Size()
	switch o.spec.Op {
	case collective.Broadcast:
		if me == 0 {
			c := sent(0, 0, ranks, 0)
			c.fill(t, o.recv, 0)
		}
	case collective.AlltoAll:
		for i := range ranks {
			c := sent(me, i, ranks, 0)
			c.fill(t, o.send[i*part:(i+1)*part], 0)
		}
	default:
		c := sent(me, 0, ranks, o.spec.Reduction)
		c.fill(t, o.send, 0)
	}
}

func (o *operation) wrong() (n int) {
	t, me, ranks := o.spec.DType, o.g.Rank(), o.g.Size()
	part := o.count * t.Size()
	switch o.spec.Op {
	case collective.Broadcast:
		c := sent(0, 0, ranks, 0)
		return c.wrong(t, o.recv, 0)
	case collective.AllGather, collective.AlltoAll:
		for i := range ranks {
			c := sent(i, 0, ranks, 0)
			if o.spec.Op == collective.AlltoAll {
				c = sent(i, me, ranks, 0)
			}
			n += c.wrong(t, o.recv[i*part:(i+1)*part], 0)
		}
		return n
	case collective.ReduceScatter:
		c := reduced(ranks, 0, o.spec.Reduction)
		return c.wrong(t, o.recv, me*o.count)
	default:
		c := reduced(ranks, 0, o.spec.Reduction)
		return c.wrong(t, o.recv, 0)
	}
}

// bus is by what nccl-tests multiplies algbw, to compare with what the hardware can do.
func bus(op collective.Op, ranks int) float64 {
	n := float64(ranks)
	switch op {
	case collective.AllReduce:
		return 2 * (n - 1) / n
	case collective.Broadcast:
		return 1
	default:
		return (n - 1) / n
	}
}
