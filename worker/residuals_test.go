package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Who has the residuals goes on as who made them, also where the table comes later.
func TestResidualsAreRestored(t *testing.T) {
	for _, codec := range testCodecs[1:] {
		d, e := coderTables(codec)
		r := rand.New(rand.NewPCG(7, 8))
		one := sender(t, nil)
		for step := range uint64(5) {
			bytesOf(t, one, step, gradientsOf(r, d, e))
		}
		c := &Client{coders: one.coders}
		saved, err := c.residuals()
		if err != nil {
			t.Fatal(err)
		}
		grads := gradientsOf(r, d, e)
		want := bytesOf(t, one, 5, grads)
		for _, late := range []bool{false, true} {
			two := sender(t, nil)
			if !late {
				for _, table := range []Table{d, e} {
					if _, err := two.coders.of(table.spec()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := (&Client{coders: two.coders}).restoreResiduals(saved); err != nil {
				t.Fatal(err)
			}
			if again := two.coders.encode(); !bytes.Equal(again, saved) {
				t.Errorf("%s: what was restored is saved otherwise", codec)
			}
			if got := bytesOf(t, two, 5, grads); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%s, tables late %v: other bytes after residuals were restored", codec, late)
			}
		}
	}
}

// Residuals of two workers add up, key by key, whether their tables are there or not.
func TestResidualsAddUp(t *testing.T) {
	for _, late := range []bool{false, true} {
		_, e := coderTables("onebit")
		c := &Client{coders: sender(t, nil).coders}
		if !late {
			if _, err := c.coders.of(e.spec()); err != nil {
				t.Fatal(err)
			}
		}
		row := func(key uint64, v float32) kept {
			return kept{10, []uint64{key, 50}, append(slices.Repeat([]float32{v}, 10), slices.Repeat([]float32{2 * v}, 10)...)}
		}
		for _, r := range []kept{row(1, 1), row(2, 4)} {
			other := sender(t, nil).coders
			other.waits["rows"] = r
			if err := c.restoreResiduals(other.encode()); err != nil {
				t.Fatal(err)
			}
		}
		k, err := c.coders.of(e.spec())
		if err != nil {
			t.Fatal(err)
		}
		keys, rows := k.rows.Residuals()
		if !slices.Equal(keys, []uint64{1, 2, 50}) || rows[0] != 1 || rows[10] != 4 || rows[20] != 10 {
			t.Errorf("keys %v, rows %v", keys, rows)
		}
	}
}

func TestResidualsRefuse(t *testing.T) {
	d, e := coderTables("onebit")
	s := sender(t, nil)
	bytesOf(t, s, 0, gradientsOf(rand.New(rand.NewPCG(1, 1)), d, e))
	c := &Client{coders: s.coders}
	saved, err := c.residuals()
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(saved) {
		if cut%97 == 0 && cut > 0 && c.restoreResiduals(saved[:cut]) == nil {
			t.Errorf("%d bytes of %d were taken", cut, len(saved))
		}
	}
	flipped := slices.Clone(saved)
	flipped[100] ^= 4
	if err := c.restoreResiduals(flipped); !errors.Is(err, errResiduals) {
		t.Errorf("a flipped bit: %v", err)
	}
	for what, r := range map[string]map[string]kept{
		"fewer elements": {"dense": {values: make([]float32, 4999)}},
		"rows":           {"dense": {10, []uint64{1}, make([]float32, 10)}},
		"wider rows":     {"rows": {11, []uint64{1}, make([]float32, 11)}},
		"a NaN":          {"rows": {10, []uint64{1}, slices.Repeat([]float32{float32(math.NaN())}, 10)}},
	} {
		other := sender(t, nil).coders
		other.waits = r
		if err := c.restoreResiduals(other.encode()); !errors.Is(err, errResiduals) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now, err := c.residuals(); err != nil || !bytes.Equal(now, saved) {
		t.Errorf("residuals have changed: %v", err)
	}
	if b, err := (&Client{coders: sender(t, nil).coders}).residuals(); b != nil || err != nil {
		t.Errorf("of no codec: %d bytes, %v", len(b), err)
	}
	if err := c.restoreResiduals(nil); err != nil {
		t.Error(err)
	}
}

// FuzzResiduals: bytes from outside give an error, or residuals that are written as they came. The checksum is made right, so that more than it is tried.
func FuzzResiduals(f *testing.F) {
	c := newCoders(Config{})
	f.Add(c.encode(), false)
	c.waits = map[string]kept{"rows": {2, []uint64{1, 1 << 60}, []float32{1, 2, 3, 4}}, "w": {values: []float32{5}}, "w" + ofSums: {values: []float32{6}}}
	f.Add(c.encode(), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) > crcLen {
			b = slices.Clone(b)
			binary.LittleEndian.PutUint32(b[len(b)-crcLen:], crc32.Checksum(b[:len(b)-crcLen], castagnoli))
		}
		all, err := decodeResiduals(b)
		if err != nil {
			if !errors.Is(err, errResiduals) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		c := newCoders(Config{})
		c.waits = all
		if again := c.encode(); !bytes.Equal(again, b) {
			t.Error("residuals do not round-trip")
		}
	})
}

// Residuals of rows have a bound; that some are lost by it is said once.
func TestResidualsHaveABound(t *testing.T) {
	var said bytes.Buffer
	s := sender(t, slog.New(slog.NewTextHandler(&said, nil)))
	s.coders.room = 30 * 64
	d, e := coderTables("onebit")
	r := rand.New(rand.NewPCG(1, 2))
	for step := range uint64(4 * watchEvery) {
		for _, g := range gradientsOf(r, d, e)[:1] {
			bytesOf(t, s, step, []Gradient{g})
		}
	}
	if n := s.coders.tables[2].rows.Len(); n > 30 {
		t.Errorf("%d rows have residuals", n)
	}
	if n := strings.Count(said.String(), "no room for more residuals"); n != 1 || !strings.Contains(said.String(), "table=rows") {
		t.Errorf("it was said %d times: %s", n, said.String())
	}
}
