package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
)

// Native is HCCL's own collectives between the devices of all ranks: a collective.Native. Host memory is staged through
// memory of the device, which grows to the largest operation.
type Native struct {
	device *hccl.Device
	world  *hccl.World
	room   [2]p2p.Buffer // of the device: what goes and what comes

	mu     sync.Mutex
	busy   bool // an operation uses room, or may do so: it has failed
	closed bool
}

// Native is NewNative with this process's device.
func (b *Bulk) Native(ctx context.Context, comm p2p.Comm, name string) (*Native, error) {
	return NewNative(ctx, comm, b.device, name)
}

// NewNative makes HCCL's communicator of the ranks of comm, each with a device of its own or nil, by a name that was
// never used. All ranks call it, with nothing else under way on comm. It is nil, at all ranks, where one has no device
// or another kind of chip, or the communicator cannot be made; collectives work without. After an error comm must be
// closed. ctx bounds it; HCCL itself waits minutes for a rank that does not come.
func NewNative(ctx context.Context, comm p2p.Comm, device *hccl.Device, name string) (*Native, error) {
	if comm.Size() < 2 {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	n, err := newNative(ctx, comm, device, name)
	if err != nil {
		return nil, fmt.Errorf("make hccl collectives %q: %w", name, err)
	}
	return n, nil
}

func newNative(ctx context.Context, comm p2p.Comm, device *hccl.Device, name string) (*Native, error) {
	reserved, err := reserveInTurn(ctx, comm, device)
	if reserved != nil {
		defer reserved.Release()
	}
	if err != nil {
		return nil, err
	}
	all, err := agree(ctx, comm, reserved != nil)
	if err != nil || !all {
		return nil, err
	}
	info, all, err := shareRoot(ctx, comm, device, reserved)
	if err != nil || !all {
		return nil, err
	}
	world, failed := reserved.World(ctx, info, comm.Rank(), comm.Size(), name)
	all, err = agree(ctx, comm, failed == nil)
	if err == nil && all {
		return &Native{device: device, world: world}, nil
	}
	if world != nil {
		err = errors.Join(err, world.Close())
	}
	return nil, err
}

// reserveInTurn reserves the devices one after the other, by rank, as Reservation asks for. It is nil where there is none to reserve.
func reserveInTurn(ctx context.Context, comm p2p.Comm, device *hccl.Device) (*hccl.Reservation, error) {
	token := p2p.Bytes(make([]byte, 1))
	me := comm.Rank()
	if me > 0 {
		if err := p2p.Recv(ctx, comm, me-1, token); err != nil {
			return nil, err
		}
	}
	var reserved *hccl.Reservation
	if device != nil {
		reserved, _ = device.Reserve(ctx) // why not, the device says itself
	}
	if me == comm.Size()-1 {
		return reserved, nil
	}
	return reserved, p2p.Send(ctx, comm, me+1, token)
}

// shareRoot tells all ranks where the root is, and finds out whether they have the same chips.
func shareRoot(ctx context.Context, comm p2p.Comm, device *hccl.Device, reserved *hccl.Reservation) (*acl.RootInfo, bool, error) {
	const chipBytes = 64
	message := make([]byte, 1+chipBytes+acl.RootInfoBytes)
	chip := make([]byte, chipBytes)
	copy(chip, device.Chip())
	info := new(acl.RootInfo)
	if comm.Rank() > 0 {
		if err := p2p.Recv(ctx, comm, 0, p2p.Bytes(message)); err != nil {
			return nil, false, err
		}
		copy(info[:], message[1+chipBytes:])
		all, err := agree(ctx, comm, message[0] == 1 && string(message[1:1+chipBytes]) == string(chip))
		return info, all, err
	}
	made, err := reserved.Root(ctx)
	if err == nil {
		info = made
		message[0] = 1
	}
	copy(message[1:], chip)
	copy(message[1+chipBytes:], info[:])
	for r := 1; r < comm.Size(); r++ {
		if err := p2p.Send(ctx, comm, r, p2p.Bytes(message)); err != nil {
			return nil, false, err
		}
	}
	all, err := agree(ctx, comm, err == nil)
	return info, all, err
}

// operator is HCCL's number for a reduction. An average is a sum that the group divides.
func operator(r collective.Reduction) acl.ReduceOp {
	switch r {
	case collective.Prod:
		return acl.Prod
	case collective.Max:
		return acl.Max
	case collective.Min:
		return acl.Min
	default:
		return acl.Sum
	}
}

// Can implements collective.Native.
func (n *Native) Can(c collective.Call) bool {
	switch c.Op {
	case collective.AllReduce, collective.ReduceScatter, collective.Reduce:
		return n.device.Reduces(c.DType, operator(c.Reduction))
	case collective.AllGather, collective.Broadcast, collective.AlltoAll:
		return true
	default:
		return false
	}
}

// Do implements collective.Native.
func (n *Native) Do(ctx context.Context, c collective.Call, send, recv p2p.Buffer) error {
	if max(send.Len(), recv.Len()) == 0 {
		return nil
	}
	n.mu.Lock()
	if n.closed || n.busy {
		n.mu.Unlock()
		return p2p.Dead(n.world.Rank(), p2p.ErrClosed)
	}
	n.busy = true
	n.mu.Unlock()
	if err := n.do(ctx, c, send, recv); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = false
	return n.tidy() //nolint:contextcheck // what is to be given back is given back when ctx has ended too
}

func (n *Native) do(ctx context.Context, c collective.Call, send, recv p2p.Buffer) error {
	if send.IsDevice() {
		return n.call(ctx, c, send, recv)
	}
	from, err := n.stage(ctx, 0, send.Len())
	if err != nil {
		return err
	}
	to := from
	if c.Op != collective.Broadcast {
		if to, err = n.stage(ctx, 1, recv.Len()); err != nil {
			return err
		}
	}
	if c.Op != collective.Broadcast || c.Root == n.world.Rank() {
		if err := n.device.Write(ctx, from, send.Host()); err != nil {
			return err
		}
	}
	if err := n.call(ctx, c, from, to); err != nil {
		return err
	}
	if (c.Op == collective.Reduce || c.Op == collective.Broadcast) && (c.Op == collective.Reduce) != (c.Root == n.world.Rank()) {
		return nil // a rank that gets nothing
	}
	return n.device.Read(ctx, recv.Host(), to)
}

// stage is the first bytes of device memory to stage in.
func (n *Native) stage(ctx context.Context, which, bytes int) (p2p.Buffer, error) {
	if room := n.room[which]; room.Len() < bytes {
		if room.Len() > 0 {
			if err := n.device.Free(ctx, room); err != nil {
				return p2p.Buffer{}, err
			}
			n.room[which] = p2p.Buffer{}
		}
		made, err := n.device.Alloc(ctx, max(bytes, 2*room.Len(), 1<<20))
		if err != nil {
			return p2p.Buffer{}, err
		}
		n.room[which] = made
	}
	room := n.room[which]
	return p2p.Device(room.DevicePointer(), bytes, room.DeviceID()), nil
}

// call is the operator of HCCL, on device memory.
func (n *Native) call(ctx context.Context, c collective.Call, send, recv p2p.Buffer) error {
	w, op := n.world, operator(c.Reduction)
	switch c.Op {
	case collective.AllReduce:
		return w.AllReduce(ctx, send, recv, c.DType, op)
	case collective.ReduceScatter:
		return w.ReduceScatter(ctx, send, recv, c.DType, op)
	case collective.Reduce:
		return w.Reduce(ctx, send, recv, c.DType, op, c.Root)
	case collective.AllGather:
		return w.AllGather(ctx, send, recv, c.DType)
	case collective.Broadcast:
		return w.Broadcast(ctx, send, c.DType, c.Root)
	case collective.AlltoAll:
		return w.AlltoAll(ctx, send, recv, c.DType)
	default:
		return fmt.Errorf("%v is not one of HCCL's", c.Op)
	}
}

// Close implements collective.Native. Memory of an operation that failed is given back with the device.
func (n *Native) Close() error {
	err := n.world.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	return errors.Join(err, n.tidy())
}

// tidy gives device memory back when nothing uses it any more; n.mu is held.
func (n *Native) tidy() error {
	if !n.closed || n.busy {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for i, room := range n.room {
		if room.Len() > 0 {
			if err := n.device.Free(ctx, room); !errors.Is(err, hccl.ErrStopped) { // what ends, frees it all
				errs = append(errs, err)
			}
		}
		n.room[i] = p2p.Buffer{}
	}
	return errors.Join(errs...)
}

// patience bounds the wait for a thread of the device that has nothing else to do.
const patience = 10 * time.Second
