package hccl

import (
	"context"
	"fmt"

	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
)

// dataType is HCCL's number for a type.
func dataType(t p2p.DType) (acl.DataType, error) {
	switch t {
	case p2p.Float32:
		return acl.Float32, nil
	case p2p.Float16:
		return acl.Float16, nil
	case p2p.BFloat16:
		return acl.BFloat, nil
	case p2p.Float64:
		return acl.Float64, nil
	case p2p.Int32:
		return acl.Int32, nil
	case p2p.Int64:
		return acl.Int64, nil
	case p2p.Uint8:
		return acl.Uint8, nil
	default:
		return 0, fmt.Errorf("use type %v in a collective: %w", t, ErrChip)
	}
}

// vector is the memory of a collective, checked: count elements of a type in each part of a buffer.
type vector struct {
	t     acl.DataType
	count uint64
}

// check finds type and count: of the parts of send, and as many bytes in recv, where the factors say how many parts each
// has.
func (w *World) check(t p2p.DType, send, recv p2p.Buffer, sendParts, recvParts int) (vector, error) {
	number, err := dataType(t)
	if err != nil {
		return vector{}, err
	}
	for _, b := range []p2p.Buffer{send, recv} {
		if err := w.d.owns(b); err != nil {
			return vector{}, err
		}
	}
	part := send.Len() / sendParts
	if send.Len() != part*sendParts || recv.Len() != part*recvParts || part%t.Size() != 0 {
		return vector{}, fmt.Errorf("%d bytes to send as %d parts, %d to receive as %d parts of %v: %w",
			send.Len(), sendParts, recv.Len(), recvParts, t, p2p.ErrLength)
	}
	return vector{number, uint64(part / t.Size())}, nil
}

// AllReduce leaves the reduction of every rank's send in recv at every rank.
func (w *World) AllReduce(ctx context.Context, send, recv p2p.Buffer, t p2p.DType, op acl.ReduceOp) error {
	v, err := w.check(t, send, recv, 1, 1)
	return w.collective(ctx, "allreduce", err, func(b *bond) error {
		return w.d.lib.AllReduce(send.DevicePointer(), recv.DevicePointer(), v.count, v.t, op, b.comm, b.stream)
	})
}

// Reduce leaves the reduction of every rank's send in recv at root.
func (w *World) Reduce(ctx context.Context, send, recv p2p.Buffer, t p2p.DType, op acl.ReduceOp, root int) error {
	v, err := w.check(t, send, recv, 1, 1)
	return w.collective(ctx, "reduce", err, func(b *bond) error {
		return w.d.lib.Reduce(send.DevicePointer(), recv.DevicePointer(), v.count, v.t, op, root, b.comm, b.stream)
	})
}

// Broadcast copies buf of root to every rank.
func (w *World) Broadcast(ctx context.Context, buf p2p.Buffer, t p2p.DType, root int) error {
	v, err := w.check(t, buf, buf, 1, 1)
	return w.collective(ctx, "broadcast", err, func(b *bond) error {
		return w.d.lib.Broadcast(buf.DevicePointer(), v.count, v.t, root, b.comm, b.stream)
	})
}

// AllGather leaves every rank's send, one behind the other, in recv at every rank.
func (w *World) AllGather(ctx context.Context, send, recv p2p.Buffer, t p2p.DType) error {
	v, err := w.check(t, send, recv, 1, w.size)
	return w.collective(ctx, "allgather", err, func(b *bond) error {
		return w.d.lib.AllGather(send.DevicePointer(), recv.DevicePointer(), v.count, v.t, b.comm, b.stream)
	})
}

// ReduceScatter leaves part i of the reduction of every rank's send in recv at rank i.
func (w *World) ReduceScatter(ctx context.Context, send, recv p2p.Buffer, t p2p.DType, op acl.ReduceOp) error {
	v, err := w.check(t, send, recv, w.size, 1)
	return w.collective(ctx, "reduce-scatter", err, func(b *bond) error {
		return w.d.lib.ReduceScatter(send.DevicePointer(), recv.DevicePointer(), v.count, v.t, op, b.comm, b.stream)
	})
}

// AlltoAll leaves part i of rank j's send as part j of recv at rank i.
func (w *World) AlltoAll(ctx context.Context, send, recv p2p.Buffer, t p2p.DType) error {
	v, err := w.check(t, send, recv, w.size, w.size)
	return w.collective(ctx, "all-to-all", err, func(b *bond) error {
		return w.d.lib.AlltoAll(send.DevicePointer(), recv.DevicePointer(), v.count, v.t, b.comm, b.stream)
	})
}

// Barrier returns when all ranks have called it.
func (w *World) Barrier(ctx context.Context) error {
	return w.collective(ctx, "barrier", nil, func(b *bond) error { return w.d.lib.Barrier(b.comm, b.stream) })
}

// Exchange is one message of a BatchSendRecv.
type Exchange struct {
	Send bool // else it is received
	Peer int
	Buf  p2p.Buffer
}

// BatchSendRecv moves messages between pairs of ranks side by side: at most one a direction and peer. What one side sends the
// other receives in the same call, with the same length.
func (w *World) BatchSendRecv(ctx context.Context, list []Exchange) error {
	items := make([]acl.SendRecvItem, len(list))
	type way struct {
		send bool
		peer int
	}
	seen := make(map[way]bool)
	var err error
	for i, x := range list {
		key := way{x.Send, x.Peer}
		switch {
		case x.Peer < 0 || x.Peer >= w.size:
			err = fmt.Errorf("reach rank %d: %w", x.Peer, p2p.ErrRank)
		case seen[key]:
			err = fmt.Errorf("a second message with rank %d in one direction: %w", x.Peer, p2p.ErrRank)
		default:
			err = w.d.owns(x.Buf)
		}
		if err != nil {
			break
		}
		seen[key] = true
		kind := acl.ItemRecv
		if x.Send {
			kind = acl.ItemSend
		}
		items[i] = acl.SendRecvItem{
			Kind: kind, Buf: x.Buf.DevicePointer(), Count: uint64(x.Buf.Len()), Type: acl.Uint8, Peer: uint32(x.Peer),
		}
	}
	return w.collective(ctx, "batch of sends and receives", err, func(b *bond) error {
		if len(items) == 0 {
			return nil
		}
		return w.d.lib.BatchSendRecv(items, b.comm, b.stream)
	})
}

// collective issues an operator whose arguments were checked with err.
func (w *World) collective(ctx context.Context, what string, err error, f func(b *bond) error) error {
	if err != nil {
		return fmt.Errorf("%s of rank %d of world %q: %w", what, w.rank, w.bond.name, err)
	}
	return w.operate(ctx, what, f)
}
