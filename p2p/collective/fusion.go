package collective

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p"
)

// The bytes at which a bucket of tensors is reduced, unless it is said. A sweep over 64 KiB to 4 MiB chose them: messages of a Comm overlap with the copies of the
// next bucket, while in memory that all ranks share there is little to overlap with, and each operation wakes its waiters.
const (
	DefaultThreshold = 1 << 20
	SharedThreshold  = 4 << 20
)

// FusionConfig says what a Fusion reduces. All ranks have the same.
type FusionConfig struct {
	DType     p2p.DType
	Reduction Reduction
	// Wire is what float32 elements travel as, see AllReduceAs; 0: as they are.
	Wire p2p.DType
	// Threshold is the most bytes of a bucket; 0: DefaultThreshold, or SharedThreshold where all ranks share memory. A tensor at least as large is reduced where it lies.
	Threshold int
}

// Fusion reduces many small tensors as few large ones: AllReduce in place, of buckets that are filled in the order in which tensors become ready. The
// order and the sizes must be the same on all ranks; where they are not, the fingerprints differ. Its methods may be called concurrently by who
// can vouch for the order.
//
// Tensors that are added in the order in which they lie in one piece of memory, without gaps, are reduced where they lie: so let gradients be slices of one
// slice, in the order in which they become ready, of [Group.Alloc] if possible. Others are copied into a flat buffer and back; but where all ranks share memory, into
// which each piece of them is copied anyway.
type Fusion struct {
	g      *Group
	cfg    FusionConfig
	strips bool // tensors that lie apart are reduced where they lie

	mu   sync.Mutex // held while a bucket is filled and posted, which keeps the order
	open *Bucket    // being filled; nil: none

	sizes []int // to work in

	freeing sync.Mutex
	free    [][]byte // flat buffers that no bucket uses
	lists   []*strip // and lists of tensors
}

// Bucket is tensors that are reduced together. Any number of goroutines may wait for it.
type Bucket struct {
	run     []byte // all tensors, while they lie one behind the other
	flat    []byte // else their copies, if they need one
	tensors *strip
	work    atomic.Pointer[Work] // nil until it is posted
	done    chan struct{}
	err     error     // written before done is closed, like
	ended   time.Time // when that was
}

// Fuse makes a Fusion, whose buckets are operations of this group.
func (g *Group) Fuse(cfg FusionConfig) (*Fusion, error) {
	if cfg.Threshold == 0 {
		if cfg.Threshold = DefaultThreshold; g.choose.together {
			cfg.Threshold = SharedThreshold
		}
	}
	a := g.check(AllReduce, cfg.DType).reduction(cfg.Reduction)
	if cfg.Wire != 0 && cfg.Wire != cfg.DType {
		a = a.wire(cfg.Wire)
	}
	if a.err == nil && cfg.Threshold < cfg.DType.Size() {
		a.err = fmt.Errorf("a bucket of %d bytes has no room for an element", cfg.Threshold)
	}
	if a.err != nil {
		return nil, fmt.Errorf("make fusion: %w", a.err)
	}
	return &Fusion{g: g, cfg: cfg, strips: a.call.Wire == 0 && g.strips(cfg.DType, cfg.Reduction)}, nil
}

// Add takes a tensor that is ready. It belongs to the group until the Bucket has ended; then it holds the result. A bucket that is full is
// reduced at once; the last one waits for Flush.
func (f *Fusion) Add(tensor p2p.Buffer) *Bucket {
	if tensor.IsDevice() || tensor.Len()%f.cfg.DType.Size() != 0 {
		err := errDevice
		if !tensor.IsDevice() {
			err = f.g.check(AllReduce, f.cfg.DType).buffers(tensor, 1, tensor, 1).err
		}
		b := &Bucket{done: make(chan struct{}), err: fmt.Errorf("fuse tensor: %w", err)}
		close(b.done)
		return b
	}
	data := tensor.Host()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(data) >= f.cfg.Threshold {
		b := &Bucket{done: make(chan struct{})}
		b.work.Store(f.reduce(tensor, 0, b.end))
		return b
	}
	if f.open != nil && f.open.tensors.len()+len(data) > f.cfg.Threshold {
		f.post()
	}
	if f.open == nil {
		f.open = &Bucket{tensors: f.list(), done: make(chan struct{})}
	}
	b := f.open
	f.put(b, data)
	if b.tensors.len() == f.cfg.Threshold {
		f.post()
	}
	return b
}

// put adds a tensor to the open bucket.
func (f *Fusion) put(b *Bucket, data []byte) {
	used := b.tensors.len()
	switch {
	case used == 0:
		b.run = data
	case b.flat != nil:
		copy(b.flat[used:], data)
	case b.run == nil: // a strip
	case adjoins(b.run, data):
		b.run = b.run[:used+len(data)]
	default:
		if !f.strips {
			b.flat = f.take()
			copy(b.flat, b.run)
			copy(b.flat[used:], data)
		}
		b.run = nil
	}
	b.tensors.add(data)
}

// adjoins says whether b lies right behind a, in the same slice.
func adjoins(a, b []byte) bool {
	return len(b) == 0 || cap(a)-len(a) >= len(b) && &a[:len(a)+1][len(a)] == &b[0]
}

// Flush begins to reduce what has been added since the last bucket was full. All ranks call it at the same place.
func (f *Fusion) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		f.post()
	}
}

// post reduces the open bucket; f.mu is held.
func (f *Fusion) post() {
	b := f.open
	f.open = nil
	f.sizes = f.sizes[:0]
	for _, t := range b.tensors.tensors {
		f.sizes = append(f.sizes, len(t))
	}
	tag := digest(f.sizes)
	after := func(err error) {
		if err == nil && b.flat != nil {
			b.tensors.scatter(b.flat[:b.tensors.len()], 0)
		}
		f.give(b)
		b.end(err)
	}
	switch {
	case b.flat != nil:
		b.work.Store(f.reduce(p2p.Bytes(b.flat[:b.tensors.len()]), tag, after))
	case b.run != nil || b.tensors.len() == 0:
		b.work.Store(f.reduce(p2p.Bytes(b.run), tag, after))
	default:
		b.work.Store(f.g.allReduceStrip(b.tensors, f.cfg.DType, f.cfg.Reduction, tag, after))
	}
}

// reduce does an AllReduce in place.
func (f *Fusion) reduce(b p2p.Buffer, tag uint32, after func(error)) *Work {
	if f.cfg.Wire != 0 && f.cfg.Wire != f.cfg.DType {
		return f.g.allReduceAs(b, b, f.cfg.Wire, f.cfg.Reduction, tag, after)
	}
	return f.g.allReduce(b, b, f.cfg.DType, f.cfg.Reduction, tag, after)
}

func (f *Fusion) take() []byte {
	f.freeing.Lock()
	defer f.freeing.Unlock()
	if n := len(f.free); n > 0 {
		b := f.free[n-1]
		f.free = f.free[:n-1]
		return b
	}
	return make([]byte, f.cfg.Threshold)
}

func (f *Fusion) list() *strip {
	f.freeing.Lock()
	defer f.freeing.Unlock()
	if n := len(f.lists); n > 0 {
		l := f.lists[n-1]
		f.lists = f.lists[:n-1]
		return l
	}
	return new(strip)
}

// give takes back what a bucket has used.
func (f *Fusion) give(b *Bucket) {
	f.freeing.Lock()
	defer f.freeing.Unlock()
	if b.flat != nil {
		f.free = append(f.free, b.flat)
	}
	clear(b.tensors.tensors)
	b.tensors.tensors, b.tensors.ends = b.tensors.tensors[:0], b.tensors.ends[:0]
	f.lists = append(f.lists, b.tensors)
	b.run, b.flat, b.tensors = nil, nil, nil
}

func (b *Bucket) end(err error) {
	b.err, b.ended = err, time.Now()
	close(b.done)
}

// Ended is when the bucket ended. It may be called when Done is closed.
func (b *Bucket) Ended() time.Time { return b.ended }

// Done is closed when the bucket has ended, well or not.
func (b *Bucket) Done() <-chan struct{} { return b.done }

// Wait returns the error of the bucket when it has ended. If ctx ends first it returns the cause, and the bucket goes on. A bucket that
// is not full ends only after Flush.
func (b *Bucket) Wait(ctx context.Context) error {
	select { // one of many tensors of a bucket that has ended
	case <-b.done:
		return b.err
	default:
	}
	if w := b.work.Load(); w != nil { // whose Wait may carry it out
		if err := w.Wait(ctx); err != nil && ctx.Err() != nil {
			return err
		}
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return fmt.Errorf("wait for bucket: %w", context.Cause(ctx))
	}
}
