package shard

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"hcclps/compress"
	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// floatSource is a p2p.Source of values.
type floatSource []float32

func (f floatSource) Len() int { return 4 * len(f) }
func (f floatSource) Fill(off int, p []byte) error {
	copy(p, vec.BytesOfFloats(f)[off:])
	return nil
}

// TestHalves: in whatever pieces an answer is sent, it has the values rounded to 16 bits; what is too large for them is the largest.
func TestHalves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, 1000)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	values[7], values[8] = 1e6, -1e6
	for form, name := range map[wire.Half]string{wire.FP16: "fp16", wire.BF16: "bf16"} {
		c, err := compress.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		fit := slices.Clone(values)
		if form == wire.FP16 {
			fit[7], fit[8] = most16, -most16
		}
		want, err := c.Append(nil, fit, 0)
		if err != nil {
			t.Fatal(err)
		}
		h := &half{of: floatSource(values), form: form}
		got := make([]byte, h.Len())
		for off := 0; off < len(got); {
			n := min(1+r.IntN(200), len(got)-off)
			if err := h.Fill(off, got[off:off+n]); err != nil {
				t.Fatal(err)
			}
			off += n
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: other bytes than the codec's", name)
		}
	}
}

// TestPullsInHalves: small answers and large ones are in 16 bits where that is asked for.
func TestPullsInHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		c.startAll()
		defer c.stopAll()
		c.open(wire.JobParams{World: 1, Sync: wire.BSP, Parts: 1})
		c.ok(&wire.Push{Target: target(0), Parts: 1, Rows: 1}, grad(7, -1.0/3, -2.0/3))
		for _, n := range []uint64{1, viewBytes / 4} {
			k := make([]uint64, n)
			for i := range k {
				k[i] = 7 + uint64(i)
			}
			whole := c.rows(&wire.Pull{Target: target(0), Step: 1, Own: 1}, k...)
			for form, off := range map[wire.Half]float64{wire.FP16: 0x1p-11, wire.BF16: 0x1p-8} {
				_, b := c.ok(&wire.Pull{Target: target(0), Step: 1, Own: 1, Half: form}, keys(k...))
				if len(b) != 2*len(whole) {
					t.Fatalf("%d bytes for %d values", len(b), len(whole))
				}
				got := make([]float32, len(whole))
				if form == wire.FP16 {
					vec.DecodeF16(got, b)
				} else {
					vec.DecodeBF16(got, b)
				}
				for i := range got {
					if math.Abs(float64(got[i]-whole[i])) > off*math.Abs(float64(whole[i])) {
						t.Fatalf("value %d: %v, is %v", i, got[i], whole[i])
					}
				}
				if got[0] == whole[0] || got[1] == whole[1] {
					t.Errorf("%v, %v are not rounded", got[0], got[1])
				}
			}
		}
	})
}
