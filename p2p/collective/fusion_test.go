package collective_test

import (
	"bytes"
	"errors"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

func TestFusion(t *testing.T) {
	sizes := []int{3, 0, 100, 1, 5000, 64, 64, 64, 7, 900, 1024, 1023, 1, 2} // elements; a bucket has 1024
	for _, ranks := range []int{1, 2, 3} {
		w := newWorld(t, ranks, nil)
		ins := make([][][]byte, len(sizes))
		want := make([][]byte, len(sizes))
		for i, n := range sizes {
			for r := range ranks {
				ins[i] = append(ins[i], tensor(p2p.Float32, n, uint64(i*100+r)))
			}
			want[i] = reduced(p2p.Float32, collective.Avg, ins[i])
		}
		operations := make([]int, ranks)
		err := w.each(func(r int, g *collective.Group) error {
			f, err := g.Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Avg, Threshold: 4096})
			if err != nil {
				return err
			}
			for range 3 { // flat buffers are used again
				var buckets []*collective.Bucket
				var got [][]byte
				for i := range sizes {
					got = append(got, bytes.Clone(ins[i][r]))
					buckets = append(buckets, f.Add(p2p.Bytes(got[i])))
				}
				f.Flush()
				for i, b := range buckets {
					if err := b.Wait(t.Context()); err != nil {
						return err
					}
					if !bytes.Equal(got[i], want[i]) {
						t.Errorf("%d ranks: tensor %d of %d elements is wrong at rank %d", ranks, i, sizes[i], r)
					}
				}
			}
			f.Flush() // nothing to do
			operations[r] = len(g.Recent())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// 5000 and 1024 alone; buckets of 104 + 199, of 900, of 1023 + 1, and of 2.
		if operations[0] != 3*6 {
			t.Errorf("%d ranks: %d operations, want 18", ranks, operations[0])
		}
	}
}

// Ranks whose tensors lie one behind the other work with ranks whose tensors do not, and nothing beside the tensors changes.
func TestFusionWhereTensorsLie(t *testing.T) {
	sizes := []int{100, 7, 0, 1, 300, 64, 0}
	total := 0
	for _, n := range sizes {
		total += n
	}
	for _, gap := range []int{0, 1} { // elements, behind the third tensor
		w := newWorld(t, 3, nil)
		err := w.each(func(r int, g *collective.Group) error {
			f, err := g.Fuse(collective.FusionConfig{DType: p2p.Int32, Reduction: collective.Sum, Threshold: 4096})
			if err != nil {
				return err
			}
			memory := tensor(p2p.Int32, total+2, uint64(r)) // the first and the last are nobody's
			want := bytes.Clone(memory)
			var whole [][]byte
			for q := range 3 {
				whole = append(whole, tensor(p2p.Int32, total+2, uint64(q)))
			}
			copy(want[4:4*(total+1)], reduced(p2p.Int32, collective.Sum, whole)[4:])
			at := 4
			var got [][]byte
			var last *collective.Bucket
			for i, n := range sizes {
				part := memory[at : at+4*n]
				if r == 1 || gap == 1 && r == 2 && i == 3 {
					part = bytes.Clone(part) // elsewhere
				}
				got = append(got, part)
				last = f.Add(p2p.Bytes(part))
				at += 4 * n
			}
			f.Flush()
			if err := last.Wait(t.Context()); err != nil {
				return err
			}
			at = 4
			for i, n := range sizes {
				if !bytes.Equal(got[i], want[at:at+4*n]) {
					return errors.New("a tensor is wrong")
				}
				at += 4 * n
			}
			if r == 0 && !bytes.Equal(memory, want) {
				return errors.New("memory beside the tensors has changed")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestFusionOfOtherTensors(t *testing.T) {
	w := newWorld(t, 2, nil)
	sizes := [][]int{{10, 20}, {20, 10}}
	errs := make([]error, 2)
	_ = w.each(func(r int, g *collective.Group) error {
		f, err := g.Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Sum})
		if err != nil {
			return err
		}
		var last *collective.Bucket
		for _, n := range sizes[r] {
			last = f.Add(p2p.Bytes(make([]byte, 4*n)))
		}
		f.Flush()
		errs[r] = last.Wait(t.Context())
		return nil
	})
	if err := errors.Join(errs...); !errors.Is(err, collective.ErrMismatch) {
		t.Errorf("tensors in another order: %v", err)
	}
}

func TestFusionRefuses(t *testing.T) {
	w := newWorld(t, 1, nil)
	for _, cfg := range []collective.FusionConfig{
		{},
		{DType: p2p.Float32},
		{DType: 77, Reduction: collective.Sum},
		{DType: p2p.Float32, Reduction: collective.Sum, Threshold: 3},
	} {
		if _, err := w.groups[0].Fuse(cfg); err == nil {
			t.Errorf("%+v made a fusion", cfg)
		}
	}
	f, err := w.groups[0].Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Sum})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(p2p.Bytes(make([]byte, 5))).Wait(t.Context()); !errors.Is(err, p2p.ErrLength) {
		t.Errorf("5 bytes of float32: %v", err)
	}
}

// Where ranks share memory tensors that lie apart are reduced in place, beside ranks whose tensors lie in one piece, of the heap or of the group.
func TestFusionOfStrips(t *testing.T) {
	sizes := []int{3, 0, 100, 1, 5000, 64, 2000, 64, 7, 900, 1024, 1023, 1, 2, 0} // elements
	total := 0
	for _, n := range sizes {
		total += n
	}
	for _, c := range []struct{ ranks, piece, threshold int }{{2, 64, 1 << 20}, {3, 4096, 1 << 20}, {4, 0, 1 << 20}, {5, 0, 4096}, {3, 128, 9000}} {
		for _, k := range []kind{{p2p.Float32, collective.Avg}, {p2p.BFloat16, collective.Sum}, {p2p.Int64, collective.Max}} {
			w := sharedWorld(t, c.ranks, nil, func(_ int, cfg *collective.Config) { cfg.Piece = c.piece })
			var whole [][]byte
			for r := range c.ranks {
				whole = append(whole, tensor(k.t, total, uint64(r)))
			}
			want := reduced(k.t, k.r, whole)
			err := w.each(func(r int, g *collective.Group) error {
				f, err := g.Fuse(collective.FusionConfig{DType: k.t, Reduction: k.r, Threshold: c.threshold})
				if err != nil {
					return err
				}
				memory := p2p.Bytes(make([]byte, len(want)))
				if r == 2 {
					if memory, err = g.Alloc(len(want)); err != nil {
						return err
					}
				}
				for turn := range 3 { // lists are used again
					all := memory.Host()
					copy(all, whole[r])
					var parts [][]byte
					var last *collective.Bucket
					for i, n := range sizes {
						part := all[:n*k.t.Size()]
						if all = all[len(part):]; r == 0 || r == 3 && i%4 == turn {
							part = bytes.Clone(part) // elsewhere
						}
						parts = append(parts, part)
						last = f.Add(p2p.Bytes(part))
					}
					f.Flush()
					if err := last.Wait(t.Context()); err != nil {
						return err
					}
					if !bytes.Equal(bytes.Join(parts, nil), want) {
						t.Errorf("%d ranks, pieces of %d, buckets of %d, %v: wrong at rank %d", c.ranks, c.piece, c.threshold, k, r)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
