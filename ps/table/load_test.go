package table_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"hcclps/ps/table"
)

// TestLoadInOrder: a full snapshot and then its increments, loaded one after another, give the last state; the table goes on from there.
func TestLoadInOrder(t *testing.T) {
	for i, spec := range specs() {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		tab, w, restored := open(t, spec), newTwin(t, spec), open(t, spec)
		limit := uint64(1_000_000 / spec.Stride())
		since := uint32(0)
		for round := range 8 {
			keys := keysOf(rng, int(limit)/8, limit*uint64(round+1)/4)
			grads := gradsOf(rng, len(keys)*spec.Dim)
			if err := tab.Apply(keys, grads, table.Stamp{Step: uint32(round)}, adder{}); err != nil {
				t.Fatal(err)
			}
			w.apply(keys, grads, table.Stamp{Step: uint32(round)})
			c := tab.Capture()
			if err := c.Pages(round == 0, since, restored.Load, new(sync.Mutex)); err != nil {
				t.Fatal(err)
			}
			since = c.Epoch()
			c.Close()
			if err := w.same(restored); err != nil {
				t.Fatalf("dim %d, round %d: %v", spec.Dim, round, err)
			}
		}
		keys := keysOf(rng, 1000, limit)
		grads := gradsOf(rng, len(keys)*spec.Dim)
		if err := restored.Apply(keys, grads, table.Stamp{Step: 99}, adder{}); err != nil {
			t.Fatal(err)
		}
		w.apply(keys, grads, table.Stamp{Step: 99})
		if err := w.same(restored); err != nil {
			t.Fatalf("dim %d: applied after load: %v", spec.Dim, err)
		}
	}
}

// TestLoadRefuses pages that cannot be, with the reason, and stays as it was.
func TestLoadRefuses(t *testing.T) {
	spec := table.Spec{Dim: 1}
	src := open(t, spec)
	keys := make([]uint64, 150_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if err := src.Apply(keys, make([]float32, len(keys)), table.Stamp{Step: 1}, adder{}); err != nil {
		t.Fatal(err)
	}
	full := image{}
	c := src.Capture()
	defer c.Close()
	if err := c.Pages(true, 0, full.emit, new(sync.Mutex)); err != nil {
		t.Fatal(err)
	}
	page := func(partition uint16, n uint32) []byte {
		return bytes.Clone(full[table.PageID{Partition: partition, Page: n}.Uint64()])
	}
	stride := spec.Stride()
	cut := page(3, 0)
	cut = cut[:2+10*stride]
	binary.LittleEndian.PutUint16(cut, 10)
	twice := page(3, 0)
	copy(twice[2:2+8], twice[2+stride:])
	foreign := page(3, 0)
	copy(foreign[2:2+8], page(4, 0)[2:])
	for _, c := range []struct {
		loaded []byte // page 3/0 before, if any
		id     table.PageID
		data   []byte
		want   string
	}{
		{nil, table.PageID{Partition: 3, Page: 1}, page(3, 1), "the page before it is not full"},
		{cut, table.PageID{Partition: 3, Page: 1}, page(3, 1), "the page before it is not full"},
		{nil, table.PageID{Partition: 1024}, page(3, 0), "partition 1024"},
		{nil, table.PageID{Partition: 4}, page(3, 0), "belongs to partition 3"},
		{nil, table.PageID{Partition: 3}, foreign, "belongs to partition 4"},
		{nil, table.PageID{Partition: 3}, twice, "occurs twice"},
		{nil, table.PageID{Partition: 3}, page(3, 0)[:50], "50 bytes"},
		{nil, table.PageID{Partition: 3}, []byte{1, 0}, "2 bytes for 1 rows"},
		{nil, table.PageID{Partition: 3}, nil, "0 bytes"},
		{page(3, 0), table.PageID{Partition: 3, Page: 1}, page(3, 0), "is in the table already"},
	} {
		tab := open(t, spec)
		if c.loaded != nil {
			if err := tab.Load(table.PageID{Partition: 3}, c.loaded); err != nil {
				t.Fatal(err)
			}
		}
		before := tab.Stats().Rows
		err := tab.Load(c.id, c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "load page "+c.id.String()) {
			t.Errorf("page %v: error %v, want one with %q", c.id, err, c.want)
		}
		if after := tab.Stats().Rows; after != before {
			t.Errorf("%s: %d rows became %d", c.want, before, after)
		}
	}
}

// FuzzLoad: no bytes break a table, and what Load accepts is read back as it was given.
func FuzzLoad(f *testing.F) {
	spec := table.Spec{Dim: 2, Slots: 2, HashSeed: 3}
	src, err := table.New(spec)
	if err != nil {
		f.Fatal(err)
	}
	keys := make([]uint64, 3000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if err := src.Apply(keys, make([]float32, 2*len(keys)), table.Stamp{Step: 7}, adder{}); err != nil {
		f.Fatal(err)
	}
	c, n := src.Capture(), 0
	if err := c.Pages(true, 0, func(id table.PageID, data []byte) error {
		if n++; n < 20 {
			f.Add(id.Uint64(), bytes.Clone(data))
			f.Add(id.Uint64()+1, bytes.Clone(data))
			f.Add(id.Uint64(), bytes.Clone(data[:len(data)-1]))
		}
		return nil
	}, new(sync.Mutex)); err != nil {
		f.Fatal(err)
	}
	_ = src.Close()
	f.Add(uint64(0), []byte{})
	f.Add(uint64(5), []byte{0, 0})
	f.Add(uint64(1023)<<32, []byte{1, 0})
	f.Fuzz(func(t *testing.T, id uint64, data []byte) {
		tab, err := table.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		defer tab.Close()
		if err := tab.Load(pageIDOf(id), data); err != nil {
			if n := tab.Stats().Rows; n != 0 {
				t.Fatalf("refused, but %d rows are there", n)
			}
			return
		}
		rows := int(binary.LittleEndian.Uint16(data))
		if n := tab.Stats().Rows; n != int64(rows) {
			t.Fatalf("%d rows of %d", n, rows)
		}
		if rows == 0 {
			return
		}
		for i := range rows {
			if _, ok := tab.Row(binary.LittleEndian.Uint64(data[2+i*spec.Stride():])); !ok {
				t.Fatalf("row %d is not found", i)
			}
		}
		back := image{}
		c := tab.Capture()
		defer c.Close()
		if err := c.Pages(true, 0, back.emit, new(sync.Mutex)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back[pageIDOf(id).Uint64()], data) || len(back) != 1 {
			t.Fatal("the page is not the one that was loaded")
		}
	})
}

// pageIDOf is the reverse of Uint64.
func pageIDOf(v uint64) table.PageID {
	return table.PageID{Partition: uint16(v >> 32), Page: uint32(v)}
}
