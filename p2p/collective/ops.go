package collective

import (
	"cmp"
	"fmt"

	"hcclps/p2p"
)

// The operations return at once. All members call the same ones, in one order, with the same counts, types, reductions and roots. Buffers are
// of host memory; send and recv may be the same memory where that is said, and must not overlap otherwise. An operation whose
// arguments cannot be is refused by its Work, and does not count: the group lives on, and the others wait for this rank.

// AllReduce leaves the reduction of every rank's send in recv at every rank. recv may be send.
func (g *Group) AllReduce(send, recv p2p.Buffer, t p2p.DType, r Reduction) *Work {
	return g.allReduce(send, recv, t, r, 0, nil)
}

func (g *Group) allReduce(send, recv p2p.Buffer, t p2p.DType, r Reduction, tag uint32, after func(error)) *Work {
	a := g.check(AllReduce, t).reduction(r).buffers(send, 1, recv, 1)
	if a.err != nil {
		if after != nil {
			after(a.err)
		}
		return refused(AllReduce, a.err)
	}
	if g.natively(a.call) {
		return g.postNative(a.call, send, recv, tag, after)
	}
	src, dst := send.Host(), recv.Host()
	return g.postTagged(a.call, len(src), tag, func(t team, v vector) error {
		return g.reduceAll(t, v, src, dst)
	}, after)
}

// ReduceScatter leaves part i of the reduction of every rank's send in recv at rank i: send has as many parts of recv's length as there are ranks.
// recv may be that part of send.
func (g *Group) ReduceScatter(send, recv p2p.Buffer, t p2p.DType, r Reduction) *Work {
	a := g.check(ReduceScatter, t).reduction(r).buffers(send, g.Size(), recv, 1)
	if a.err != nil {
		return refused(ReduceScatter, a.err)
	}
	if g.natively(a.call) {
		return g.postNative(a.call, send, recv, 0, nil)
	}
	src, dst := send.Host(), recv.Host()
	return g.post(a.call, len(src), func(t team, v vector) error {
		err := reduceScatter(t, g.algorithm(t), v, src, dst, equal(len(dst), t.size()))
		if err == nil {
			v.finish(dst, t.size())
		}
		return err
	})
}

// AllGather leaves every rank's send, in the order of ranks, in recv at every rank. send may be this rank's part of recv.
func (g *Group) AllGather(send, recv p2p.Buffer, t p2p.DType) *Work {
	a := g.check(AllGather, t).buffers(send, 1, recv, g.Size())
	if a.err != nil {
		return refused(AllGather, a.err)
	}
	if g.natively(a.call) {
		return g.postNative(a.call, send, recv, 0, nil)
	}
	src, dst := send.Host(), recv.Host()
	return g.post(a.call, len(dst), func(t team, v vector) error {
		parts := equal(len(src), t.size())
		place(parts.part(dst, t.me), src)
		return allGather(t, g.algorithm(t), v, dst, parts)
	})
}

// Broadcast copies buf of root to buf of every rank.
func (g *Group) Broadcast(buf p2p.Buffer, t p2p.DType, root int) *Work {
	a := g.check(Broadcast, t).root(root).buffers(buf, 1, buf, 1)
	if a.err != nil {
		return refused(Broadcast, a.err)
	}
	if g.natively(a.call) {
		return g.postNative(a.call, buf, buf, 0, nil)
	}
	data := buf.Host()
	return g.post(a.call, len(data), func(t team, v vector) error {
		if c := t.call.Algorithm; c.Level0 != Auto {
			return layeredBroadcast(t, g.choose.levels, c, v, data, root)
		}
		return broadcast(t, g.algorithm(t), v, data, root)
	})
}

// Reduce leaves the reduction of every rank's send in recv at root, which may be send. At other ranks recv is not used.
func (g *Group) Reduce(send, recv p2p.Buffer, t p2p.DType, r Reduction, root int) *Work {
	a := g.check(Reduce, t).reduction(r).root(root)
	if g.Rank() != root {
		recv = send
	}
	if a = a.buffers(send, 1, recv, 1); a.err != nil {
		return refused(Reduce, a.err)
	}
	if g.natively(a.call) {
		return g.postNative(a.call, send, recv, 0, nil)
	}
	src, dst := send.Host(), recv.Host()
	return g.post(a.call, len(src), func(t team, v vector) error {
		out := dst
		if t.me != root && g.algorithm(t) != SHM {
			out = t.scratch.take(len(src))
		}
		if err := g.reduceToRoot(t, v, src, out, root); err != nil {
			return err
		}
		if t.me == root {
			v.finish(out, t.size())
		}
		return nil
	})
}

// Scatter leaves part i of root's send, of recv's length, in recv at rank i. At other ranks send is not used. recv may be root's part of send.
func (g *Group) Scatter(send, recv p2p.Buffer, t p2p.DType, root int) *Work {
	a := g.check(Scatter, t).root(root)
	if g.Rank() == root {
		a = a.buffers(send, g.Size(), recv, 1)
	} else {
		a = a.buffers(recv, 1, recv, 1)
	}
	if a.err != nil {
		return refused(Scatter, a.err)
	}
	src, dst := send.Host(), recv.Host()
	return g.post(a.call, len(dst)*g.Size(), func(t team, _ vector) error {
		parts := equal(len(dst), t.size())
		if t.me == root {
			place(dst, parts.part(src, root))
		}
		return meshScatter(t, src, dst, parts, root)
	})
}

// Gather leaves every rank's send, in the order of ranks, in recv at root. At other ranks recv is not used. send may be root's part of recv.
func (g *Group) Gather(send, recv p2p.Buffer, t p2p.DType, root int) *Work {
	a := g.check(Gather, t).root(root)
	if g.Rank() == root {
		a = a.buffers(send, 1, recv, g.Size())
	} else {
		a = a.buffers(send, 1, send, 1)
	}
	if a.err != nil {
		return refused(Gather, a.err)
	}
	src, dst := send.Host(), recv.Host()
	return g.post(a.call, len(src)*g.Size(), func(t team, _ vector) error {
		parts := equal(len(src), t.size())
		if t.me == root {
			place(parts.part(dst, root), src)
		}
		return meshGather(t, src, dst, parts, root)
	})
}

// AlltoAll leaves part i of rank j's send as part j of recv at rank i.
func (g *Group) AlltoAll(send, recv p2p.Buffer, t p2p.DType) *Work {
	p := g.Size()
	a := g.check(AlltoAll, t).buffers(send, p, recv, p)
	if a.err != nil {
		return refused(AlltoAll, a.err)
	}
	if g.natively(a.call) {
		return g.postNative(a.call, send, recv, 0, nil)
	}
	src, dst := send.Host(), recv.Host()
	return g.post(a.call, len(src), func(t team, v vector) error {
		parts := equal(len(src)/p, p)
		if g.algorithm(t) == SHM && p > 1 {
			return sharedAlltoAll(t, v, src, dst, parts)
		}
		return alltoAll(t, g.algorithm(t), src, dst, parts, parts)
	})
}

// AlltoAllV is AlltoAll with parts of differing lengths: sendCounts[i] elements go to rank i, recvCounts[j] come from rank j; the parts lie one behind the
// other. No rank knows all counts, so the algorithm is Pairwise unless pinned.
func (g *Group) AlltoAllV(send p2p.Buffer, sendCounts []int, recv p2p.Buffer, recvCounts []int, t p2p.DType) *Work {
	a := g.check(AlltoAllV, t)
	out, err := a.parts("send", send, sendCounts)
	in, err2 := a.parts("receive", recv, recvCounts)
	if a.err = cmp.Or(err, err2); a.err == nil && sendCounts[g.Rank()] != recvCounts[g.Rank()] {
		a.err = fmt.Errorf("%d elements to send to this rank itself, %d to receive: %w", sendCounts[g.Rank()], recvCounts[g.Rank()], p2p.ErrLength)
	}
	if a.err != nil {
		return refused(AlltoAllV, a.err)
	}
	src, dst := send.Host(), recv.Host()
	return g.post(a.call, 0, func(t team, _ vector) error {
		return alltoAll(t, g.algorithm(t), src, dst, out, in)
	})
}

// Barrier ends when every rank has called it.
func (g *Group) Barrier() *Work {
	return g.post(Call{Op: Barrier, Root: NoRoot}, 0, func(t team, _ vector) error {
		if t.shared != nil && g.algorithm(t) == SHM {
			return sharedBarrier(t)
		}
		return disseminate(t)
	})
}

// reduceAll does an AllReduce by the algorithm of the call.
func (g *Group) reduceAll(t team, v vector, src, dst []byte) error {
	if c := t.call.Algorithm; c.Level0 != Auto {
		return layeredAllReduce(t, g.choose.levels, c, v, src, dst)
	}
	if a := g.algorithm(t); a != Mesh || len(g.cfg.Apart) == 0 || small(len(src), t.size()) {
		return allReduce(t, a, v, src, dst)
	}
	return apartAllReduce(t, v, g.cfg.Apart, src, dst)
}

// reduceToRoot does a Reduce by the algorithm of the call.
func (g *Group) reduceToRoot(t team, v vector, src, out []byte, root int) error {
	if c := t.call.Algorithm; c.Level0 != Auto {
		return layeredReduce(t, g.choose.levels, c, v, src, out, root)
	}
	return reduceTo(t, g.algorithm(t), v, src, out, root)
}

// algorithm is that of an operation in one level.
func (g *Group) algorithm(t team) Algorithm { return t.call.Algorithm.Level1 }

// place copies unless the memory is the same.
func place(dst, src []byte) {
	if !same(dst, src) {
		copy(dst, src)
	}
}

// arguments are those of a call, as far as they are checked.
type arguments struct {
	g    *Group
	call Call
	err  error // the first fault
}

func (g *Group) check(op Op, t p2p.DType) arguments {
	a := arguments{g: g, call: Call{Op: op, DType: t, Root: NoRoot}}
	if t.Size() == 0 {
		a.err = fmt.Errorf("element type %v is unknown", t)
	}
	return a
}

func (a arguments) reduction(r Reduction) arguments {
	if a.call.Reduction = r; a.err == nil && (r < Sum || r > Avg) {
		a.err = fmt.Errorf("%v is unknown", r)
	}
	return a
}

func (a arguments) root(root int) arguments {
	if a.call.Root = root; a.err == nil && (root < 0 || root >= a.g.Size()) {
		a.err = fmt.Errorf("root %d of %d ranks: %w", root, a.g.Size(), p2p.ErrRank)
	}
	return a
}

// buffers checks lengths: both are some parts of one length, which is the count.
func (a arguments) buffers(send p2p.Buffer, sendParts int, recv p2p.Buffer, recvParts int) arguments {
	if a.err != nil {
		return a
	}
	width := a.call.DType.Size()
	part := send.Len() / sendParts
	if a.err = a.onDevice(send, recv); a.err != nil {
		return a
	}
	if part*sendParts != send.Len() || part*recvParts != recv.Len() || part%width != 0 {
		a.err = fmt.Errorf("%d bytes to send as %d parts, %d to receive as %d parts of %v: %w",
			send.Len(), sendParts, recv.Len(), recvParts, a.call.DType, p2p.ErrLength)
	}
	a.call.Count = part / width
	return a
}

// parts checks the counts of one side of AlltoAllV and cuts its buffer.
func (a arguments) parts(what string, b p2p.Buffer, counts []int) (cut, error) {
	if a.err != nil {
		return nil, a.err
	}
	if b.IsDevice() {
		return nil, errDevice
	}
	if len(counts) != a.g.Size() {
		return nil, fmt.Errorf("%d counts to %s, of %d ranks: %w", len(counts), what, a.g.Size(), p2p.ErrLength)
	}
	c := make(cut, len(counts)+1)
	for i, n := range counts {
		if n < 0 || n > (b.Len()-c[i])/a.call.DType.Size() {
			return nil, fmt.Errorf("%d elements of rank %d to %s do not fit %d bytes: %w", n, i, what, b.Len(), p2p.ErrLength)
		}
		c[i+1] = c[i] + n*a.call.DType.Size()
	}
	if c[len(counts)] != b.Len() {
		return nil, fmt.Errorf("%d bytes to %s, the counts are of %d: %w", b.Len(), what, c[len(counts)], p2p.ErrLength)
	}
	return c, nil
}
