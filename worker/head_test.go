package worker

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"hcclps/ps/wire"
)

func TestHeadsGoThereAndBack(t *testing.T) {
	for _, h := range []head{
		{},
		{
			step: 7, schema: math.MaxUint64, plan: wire.Plan{Kind: wire.PlanRate, Rate: 0.5, T: 9}, rows: 64, loss: loss{-1.5, 64}, body: 800,
			refused: true, waiting: true, cursor: bytes.Repeat([]byte{1}, wire.MaxCursor),
		},
	} {
		b := bytes.Repeat([]byte{0xff}, headSize)
		h.encode(b)
		got, err := decodeHead(b)
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("got %+v, %v, want %+v", got, err, h)
		}
	}
	if _, err := decodeHead(make([]byte, headSize-1)); !errors.Is(err, errHead) {
		t.Errorf("short: %v", err)
	}
}

func FuzzHead(f *testing.F) {
	b := make([]byte, headSize)
	(&head{step: 1, rows: 2, body: 3, cursor: []byte("at")}).encode(b)
	f.Add(b)
	f.Add(bytes.Repeat([]byte{0xff}, headSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHead(b)
		if err != nil {
			if !errors.Is(err, errHead) {
				t.Fatal(err)
			}
			return
		}
		again := make([]byte, headSize)
		h.encode(again)
		got, err := decodeHead(again)
		if err != nil || !sameHead(got, h) {
			t.Fatalf("%+v, %v, want %+v", got, err, h)
		}
	})
}

// sameHead compares bits, as a NaN is not itself.
func sameHead(a, b head) bool {
	bits := func(h head) [2]uint64 {
		return [2]uint64{math.Float64bits(h.loss.sum), uint64(math.Float32bits(h.plan.Rate))}
	}
	if bits(a) != bits(b) {
		return false
	}
	a.loss.sum, b.loss.sum, a.plan.Rate, b.plan.Rate = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}
