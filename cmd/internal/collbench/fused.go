package collbench

import (
	"context"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// fused is an AllReduce of many tensors.
type fused struct {
	fusion  *collective.Fusion
	tensors []p2p.Buffer
	buckets []*collective.Bucket
}

// newFused cuts memory into tensors, or makes tensors of the same sizes that lie apart.
func newFused(g *collective.Group, spec Spec, memory []byte) (*fused, error) {
	f, err := g.Fuse(collective.FusionConfig{DType: spec.DType, Reduction: spec.Reduction, Threshold: spec.Threshold})
	if err != nil {
		return nil, err
	}
	out := &fused{fusion: f, buckets: make([]*collective.Bucket, spec.Tensors)}
	count := len(memory) / spec.DType.Size()
	for i := range spec.Tensors {
		lo, hi := i*count/spec.Tensors*spec.DType.Size(), (i+1)*count/spec.Tensors*spec.DType.Size()
		t := memory[lo:hi]
		if spec.Scattered {
			t = make([]byte, hi-lo)
		}
		out.tensors = append(out.tensors, p2p.Bytes(t))
	}
	return out, nil
}

func (f *fused) call(ctx context.Context) error {
	for i, t := range f.tensors {
		f.buckets[i] = f.fusion.Add(t)
	}
	f.fusion.Flush()
	for _, b := range f.buckets {
		if err := b.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scatter fills the tensors, gather takes what is in them.
func (f *fused) scatter(memory []byte) {
	for _, t := range f.tensors {
		memory = memory[copy(t.Host(), memory):]
	}
}

func (f *fused) gather(memory []byte) {
	for _, t := range f.tensors {
		memory = memory[copy(memory, t.Host()):]
	}
}
