package acl

import "unsafe"

// GetRootInfo makes this rank the root of a communicator to be: a server thread starts that lives until all ranks have come or the
// connect time-out is over. Ask the other ranks first.
func (l *Lib) GetRootInfo() (*RootInfo, error) {
	info := new(RootInfo)
	err := l.hc(hcclGetRootInfo, uintptr(unsafe.Pointer(info)))
	return info, err
}

// CommInitRootInfo makes a communicator, with the settings of config as far as the library knows them. It blocks until
// all ranks are in it, for at most the connect time-out. Never two at once on one device.
func (l *Lib) CommInitRootInfo(size int, info *RootInfo, rank int, config CommConfig) (Comm, error) {
	var c Comm
	if l.addr[hcclCommInitRootInfoConfig] == 0 {
		err := l.hc(hcclCommInitRootInfo, uintptr(size), uintptr(unsafe.Pointer(info)), uintptr(rank), uintptr(unsafe.Pointer(&c)))
		return c, err
	}
	raw := config.encode(l.ConfigCapability())
	err := l.hc(hcclCommInitRootInfoConfig, uintptr(size), uintptr(unsafe.Pointer(info)), uintptr(rank),
		uintptr(unsafe.Pointer(&raw[0])), uintptr(unsafe.Pointer(&c)))
	return c, err
}

// ConfigCapability tells how new the HcclCommConfig of the library is: a feature is known if it is above the feature's
// number. It is 0 for libraries that do not tell.
func (l *Lib) ConfigCapability() int {
	n, err := l.call(hcclGetCommConfigCapability)
	if err != nil {
		return 0
	}
	return int(n)
}

// CommDestroy ends a communicator. It may be called while another thread is stuck in the first operator of a pair, which
// then returns; while another thread is elsewhere in the communicator it fails with IsAgain. Streams that use the
// communicator must be done or aborted.
func (l *Lib) CommDestroy(c Comm) error { return l.hc(hcclCommDestroy, uintptr(c)) }

// AsyncError is the error of a link that was noticed after the call that used it, nil if there is none.
func (l *Lib) AsyncError(c Comm) error {
	var code int32
	if err := l.hc(hcclGetCommAsyncError, uintptr(c), uintptr(unsafe.Pointer(&code))); err != nil || code == 0 {
		return err
	}
	return newError(hcclGetCommAsyncError, true, code, l.RecentMessage())
}

// Send sends count elements of device memory to a rank.
func (l *Lib) Send(buf uintptr, count uint64, t DataType, peer int, c Comm, s Stream) error {
	return l.hc(hcclSend, buf, uintptr(count), uintptr(t), uintptr(peer), uintptr(c), uintptr(s))
}

// Recv receives count elements from a rank into device memory.
func (l *Lib) Recv(buf uintptr, count uint64, t DataType, peer int, c Comm, s Stream) error {
	return l.hc(hcclRecv, buf, uintptr(count), uintptr(t), uintptr(peer), uintptr(c), uintptr(s))
}

// BatchSendRecv runs sends and receives side by side: at most one a direction and peer.
func (l *Lib) BatchSendRecv(items []SendRecvItem, c Comm, s Stream) error {
	return l.hc(hcclBatchSendRecv, uintptr(unsafe.Pointer(unsafe.SliceData(items))), uintptr(len(items)), uintptr(c), uintptr(s))
}

// AllReduce reduces count elements of every rank, into all ranks.
func (l *Lib) AllReduce(send, recv uintptr, count uint64, t DataType, op ReduceOp, c Comm, s Stream) error {
	return l.hc(hcclAllReduce, send, recv, uintptr(count), uintptr(t), uintptr(op), uintptr(c), uintptr(s))
}

// Reduce reduces count elements of every rank, into root.
func (l *Lib) Reduce(send, recv uintptr, count uint64, t DataType, op ReduceOp, root int, c Comm, s Stream) error {
	return l.hc(hcclReduce, send, recv, uintptr(count), uintptr(t), uintptr(op), uintptr(root), uintptr(c), uintptr(s))
}

// Broadcast copies count elements of root to all ranks.
func (l *Lib) Broadcast(buf uintptr, count uint64, t DataType, root int, c Comm, s Stream) error {
	return l.hc(hcclBroadcast, buf, uintptr(count), uintptr(t), uintptr(root), uintptr(c), uintptr(s))
}

// AllGather puts the count elements of every rank one behind the other, at all ranks.
func (l *Lib) AllGather(send, recv uintptr, count uint64, t DataType, c Comm, s Stream) error {
	return l.hc(hcclAllGather, send, recv, uintptr(count), uintptr(t), uintptr(c), uintptr(s))
}

// ReduceScatter reduces and leaves every rank its count elements of the result.
func (l *Lib) ReduceScatter(send, recv uintptr, count uint64, t DataType, op ReduceOp, c Comm, s Stream) error {
	return l.hc(hcclReduceScatter, send, recv, uintptr(count), uintptr(t), uintptr(op), uintptr(c), uintptr(s))
}

// AlltoAll sends count elements from every rank to every rank.
func (l *Lib) AlltoAll(send, recv uintptr, count uint64, t DataType, c Comm, s Stream) error {
	return l.hc(hcclAlltoAll, send, uintptr(count), uintptr(t), recv, uintptr(count), uintptr(t), uintptr(c), uintptr(s))
}

// Scatter sends each rank its count elements of root's memory.
func (l *Lib) Scatter(send, recv uintptr, count uint64, t DataType, root int, c Comm, s Stream) error {
	return l.hc(hcclScatter, send, recv, uintptr(count), uintptr(t), uintptr(root), uintptr(c), uintptr(s))
}

// Barrier makes a stream wait until all ranks are there.
func (l *Lib) Barrier(c Comm, s Stream) error { return l.hc(hcclBarrier, uintptr(c), uintptr(s)) }
