package collective

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hcclps/p2p"
)

// DefaultThreshold is the bytes at which a bucket of tensors is reduced.
const DefaultThreshold = 1 << 20

// FusionConfig says what a Fusion reduces. All ranks have the same.
type FusionConfig struct {
	DType     p2p.DType
	Reduction Reduction
	// Wire is what float32 elements travel as, see AllReduceAs; 0: as they are.
	Wire p2p.DType
	// Threshold is the most bytes of a bucket; 0: DefaultThreshold. A tensor at least as large is reduced where it lies.
	Threshold int
}

// Fusion reduces many small tensors as few large ones: AllReduce in place, of buckets that are filled in the order in which tensors become ready. The
// order and the sizes must be the same on all ranks; where they are not, the fingerprints differ. Its methods may be called concurrently by who
// can vouch for the order.
type Fusion struct {
	g   *Group
	cfg FusionConfig

	mu   sync.Mutex // held while a bucket is filled and posted, which keeps the order
	open *Bucket    // being filled; nil: none

	freeing sync.Mutex
	free    [][]byte // flat buffers that no bucket uses
}

// Bucket is tensors that are reduced together. Any number of goroutines may wait for it.
type Bucket struct {
	flat    []byte
	used    int
	tensors [][]byte
	done    chan struct{}
	err     error     // written before done is closed, like
	ended   time.Time // when that was
}

// Fuse makes a Fusion, whose buckets are operations of this group.
func (g *Group) Fuse(cfg FusionConfig) (*Fusion, error) {
	if cfg.Threshold == 0 {
		cfg.Threshold = DefaultThreshold
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
	return &Fusion{g: g, cfg: cfg}, nil
}

// Add takes a tensor that is ready. It belongs to the group until the Bucket has ended; then it holds the result. A bucket that is full is
// reduced at once; the last one waits for Flush.
func (f *Fusion) Add(tensor p2p.Buffer) *Bucket {
	a := f.g.check(AllReduce, f.cfg.DType).buffers(tensor, 1, tensor, 1)
	if a.err != nil {
		b := &Bucket{done: make(chan struct{}), err: fmt.Errorf("fuse tensor: %w", a.err)}
		close(b.done)
		return b
	}
	data := tensor.Host()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(data) >= f.cfg.Threshold {
		b := &Bucket{done: make(chan struct{})}
		f.reduce(tensor, 0, b.end)
		return b
	}
	if f.open != nil && f.open.used+len(data) > f.cfg.Threshold {
		f.post()
	}
	if f.open == nil {
		f.open = &Bucket{flat: f.take(), done: make(chan struct{})}
	}
	b := f.open
	b.used += copy(b.flat[b.used:], data)
	b.tensors = append(b.tensors, data)
	if b.used == f.cfg.Threshold {
		f.post()
	}
	return b
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
	sizes := make([]int, len(b.tensors))
	for i, t := range b.tensors {
		sizes[i] = len(t)
	}
	flat := p2p.Bytes(b.flat[:b.used])
	f.reduce(flat, digest(sizes), func(err error) {
		at := 0
		for _, t := range b.tensors {
			if err == nil {
				copy(t, b.flat[at:])
			}
			at += len(t)
		}
		f.give(b.flat)
		b.flat, b.tensors = nil, nil
		b.end(err)
	})
}

// reduce does an AllReduce in place.
func (f *Fusion) reduce(b p2p.Buffer, tag uint32, after func(error)) {
	if f.cfg.Wire != 0 && f.cfg.Wire != f.cfg.DType {
		f.g.allReduceAs(b, b, f.cfg.Wire, f.cfg.Reduction, tag, after)
		return
	}
	f.g.allReduce(b, b, f.cfg.DType, f.cfg.Reduction, tag, after)
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

func (f *Fusion) give(b []byte) {
	f.freeing.Lock()
	defer f.freeing.Unlock()
	f.free = append(f.free, b)
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
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return fmt.Errorf("wait for bucket: %w", context.Cause(ctx))
	}
}
