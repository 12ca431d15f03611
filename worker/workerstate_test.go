package worker

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"hcclps/checkpoint"
	"hcclps/ps/wire"
)

func someState() *workerState {
	rows := wire.AppendRow(nil, wire.Row{Key: 7, Values: []float32{1, -2}})
	return &workerState{
		workerHead: workerHead{
			Worker: "worker-1", Rank: 1, World: 3, Step: 99, Cursor: []byte{1, 2, 3}, About: About{Model: "lr"},
			Dense: &shared{Clock: 99, Tables: []sharedRule{{Spec: wire.Table{ID: 1 << 30, Name: "w", Dim: 2, Shape: []uint32{2}, Optimizer: "sgd"}}}},
		},
		residuals: []byte("held back"),
		rows:      append([]byte{byte(len(rows)), 0, 0, 0, 0, 0, 0, 0}, rows...),
	}
}

func TestWorkerStateRoundTrip(t *testing.T) {
	t.Parallel()
	want := someState()
	b, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeWorkerState(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 0x10
		if _, err := decodeWorkerState(bad); err == nil {
			t.Errorf("byte %d of %d is another, and nobody sees it", i, len(b))
		}
		if _, err := decodeWorkerState(b[:i]); !errors.Is(err, errWorkerState) {
			t.Errorf("%d of %d bytes: %v", i, len(b), err)
		}
	}
	got.rows = got.rows[:len(got.rows)-1]
	if err := got.eachTable(func(*sharedRule, []wire.Row) error { return nil }); !errors.Is(err, errWorkerState) {
		t.Errorf("rows that end early: %v", err)
	}
}

func FuzzWorkerState(f *testing.F) {
	b, err := someState().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:workerFixed])
	f.Add([]byte(workerMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeWorkerState(b)
		if err != nil {
			return
		}
		if s.Dense != nil {
			_ = s.eachTable(func(*sharedRule, []wire.Row) error { return nil }) // must not fall over
		}
		again, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeWorkerState(again); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("read again: %+v, %v, want %+v", got, err, s)
		}
	})
}

// Parts of any length come to rank 0, and go from there.
func TestPartSizes(t *testing.T) {
	t.Parallel()
	table := []byte{5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0}
	if sizes, piece, longest, err := partSizes(table); err != nil || !reflect.DeepEqual(sizes, []int{5, 2 << 20}) || piece != partPiece || longest != 2<<20 {
		t.Errorf("sizes %v, in pieces of %d, the longest %d: %v", sizes, piece, longest, err)
	}
	table[15] = 1
	if _, _, _, err := partSizes(table); err == nil {
		t.Error("a part of 2^56 bytes is taken")
	}
}

// TestStatesAreTakenWhereTheyAre: the dense tensors of a hybrid job need not be those of rank 0, but somebody must have brought them.
func TestStatesAreTakenWhereTheyAre(t *testing.T) {
	t.Parallel()
	with := someState()
	bare := someState()
	bare.Dense, bare.rows, bare.About = nil, nil, About{}
	blobs := make([][]byte, 4) // rank 1 has brought nothing
	for rank, s := range map[int]*workerState{0: bare, 2: with, 3: bare} {
		var err error
		if blobs[rank], err = s.encode(); err != nil {
			t.Fatal(err)
		}
	}
	m := &checkpoint.Manifest{ID: 5, Params: []byte(`{"mode":"hybrid"}`)}
	if about, dense, err := modelState(m, blobs); err != nil || about.Model != "lr" || !reflect.DeepEqual(dense, with) {
		t.Errorf("%v, %+v, %v", about, dense, err)
	}
	if _, _, err := modelState(m, blobs[:2]); err == nil || !strings.Contains(err.Error(), "without its dense tensors") {
		t.Errorf("a hybrid job without dense tensors: %v", err)
	}
	m.Params = []byte(`{"mode":"allreduce"}`)
	if _, dense, err := modelState(m, blobs[:2]); err != nil || dense != nil {
		t.Errorf("a job of another mode: %+v, %v", dense, err)
	}
}

// Segments are cut into pieces that are the same when they are put together.
func TestCutInto(t *testing.T) {
	segments := [][]byte{[]byte("abc"), nil, []byte("defghij"), []byte("k")}
	for size := 1; size < 13; size++ {
		var all []byte
		for i, p := range cutInto(segments, size) {
			if n := lengthOf(p); n != size && (n > size || i < (11+size-1)/size-1) {
				t.Errorf("piece %d has %d bytes, want %d", i, n, size)
			}
			all = append(all, bytes.Join(p, nil)...)
		}
		if string(all) != "abcdefghijk" {
			t.Errorf("%q in pieces of %d", all, size)
		}
	}
}
