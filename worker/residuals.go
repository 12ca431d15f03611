package worker

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"hcclps/internal/vec"
)

// Residuals of all tables are, little endian:
//
//	3  magic "hcr"
//	1  version, 1
//	4  tables, and of each, ascending by name
//	      4  bytes of the name, and the name
//	      8  rows: of an embedding table with their keys; of a dense tensor nothing but elements
//	      4  floats a row; 0: a dense tensor
//	      8  a key, ascending, of each row of an embedding table
//	      4  a float of each
//	4  CRC-32C of all before
const (
	residualsMagic = "hcr\x01"
	crcLen         = 4
)

// ofSums is behind the name of a tensor whose residual is that of sums that this worker has made.
const ofSums = "\x00sums"

var errResiduals = errors.New("not the residuals of a worker")

// kept is the residual of a table.
type kept struct {
	dim    int // 0: a dense tensor
	keys   []uint64
	values []float32
}

// residuals are what the codes of this worker's gradients have not held so far, of all tables: what a checkpoint keeps of a worker; nil: nothing. It is
// called between two steps.
func (c *Client) residuals() ([]byte, error) {
	if len(c.coders.tables)+len(c.coders.waits) == 0 {
		return nil, nil
	}
	return c.coders.encode(), nil
}

// restoreResiduals adds what residuals returned, of this worker or of one whose part falls to it, to the residuals of
// tables that there are and those to come. An error leaves all as it was.
func (c *Client) restoreResiduals(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	tables, err := decodeResiduals(b)
	if err != nil {
		return fmt.Errorf("restore residuals: %w", err)
	}
	if err := c.coders.restore(tables); err != nil {
		return fmt.Errorf("restore residuals: %w", err)
	}
	if c.local != nil {
		c.local.squeeze = nil // which looks at who owns what
	}
	return nil
}

// encode writes the residuals of all tables, also of those that wait for their table.
func (c *coders) encode() []byte { return bytes.Join(c.segments(), nil) }

// segments is encode in pieces that are to be put together, so that many rows are copied but once: they stay as they are while gradients are coded on.
func (c *coders) segments() [][]byte {
	all := map[string]kept{}
	maps.Copy(all, c.waits)
	for _, k := range c.tables {
		all[k.spec.Name] = k.residual()
		if k.back != nil {
			all[k.spec.Name+ofSums] = kept{values: k.back.Residual()}
		}
	}
	le := binary.LittleEndian
	out := [][]byte{le.AppendUint32([]byte(residualsMagic), uint32(len(all)))}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		rows := len(r.keys)
		if r.dim == 0 {
			rows = len(r.values)
		}
		of := le.AppendUint32(nil, uint32(len(name)))
		of = append(of, name...)
		of = le.AppendUint64(of, uint64(rows))
		of = le.AppendUint32(of, uint32(r.dim))
		values := vec.BytesOfFloats(r.values)
		if r.dim == 0 {
			values = slices.Clone(values) // the codec's own
		}
		out = append(out, of, vec.BytesOfUint64s(r.keys), values)
	}
	return append(out, le.AppendUint32(nil, checksum(out)))
}

// checksum is the CRC-32C of segments.
func checksum(segments [][]byte) (sum uint32) {
	for _, b := range segments {
		sum = crc32.Update(sum, castagnoli, b)
	}
	return sum
}

// lengthOf is the number of bytes of segments.
func lengthOf(segments [][]byte) (n int) {
	for _, b := range segments {
		n += len(b)
	}
	return n
}

// plus is the sum of two residuals of one table.
func (r kept) plus(o kept) (kept, error) {
	if r.dim != o.dim || r.dim == 0 && len(r.values) != len(o.values) {
		return kept{}, fmt.Errorf("residuals of %d values in rows of %d, and of %d in rows of %d: %w", len(r.values), r.dim, len(o.values), o.dim, errResiduals)
	}
	if r.dim == 0 {
		sum := slices.Clone(r.values)
		vec.Add(sum, o.values)
		return kept{values: sum}, nil
	}
	sum := kept{dim: r.dim}
	for i, j := 0, 0; i < len(r.keys) || j < len(o.keys); {
		at := len(sum.values)
		left := j == len(o.keys) || i < len(r.keys) && r.keys[i] <= o.keys[j]
		right := i == len(r.keys) || j < len(o.keys) && o.keys[j] <= r.keys[i]
		if left {
			sum.keys, sum.values = append(sum.keys, r.keys[i]), append(sum.values, r.values[i*r.dim:][:r.dim]...)
			i++
		}
		switch {
		case left && right:
			vec.Add(sum.values[at:], o.values[j*r.dim:][:r.dim])
			j++
		case right:
			sum.keys, sum.values = append(sum.keys, o.keys[j]), append(sum.values, o.values[j*r.dim:][:r.dim]...)
			j++
		}
	}
	return sum, nil
}

// residual is that of a table.
func (k *coder) residual() kept {
	if k.dense != nil {
		return kept{values: k.dense.Residual()}
	}
	keys, values := k.rows.Residuals()
	return kept{int(k.spec.Dim), keys, values}
}

// fits says why a residual cannot be that of the table.
func (k *coder) fits(r kept) error {
	want, n := int(k.spec.Dim), len(r.values)
	if k.dense != nil {
		want, n = 0, elements(&k.spec)
	}
	if r.dim != want || n != len(r.values) {
		return fmt.Errorf("table %q: the residual has %d values in rows of %d, the table %d in rows of %d: %w", k.spec.Name, len(r.values), r.dim, n, want, errResiduals)
	}
	return nil
}

// restore adds residuals to those of the tables that are there, and keeps the others.
func (c *coders) restore(more map[string]kept) error {
	all := maps.Clone(c.waits)
	if all == nil {
		all = map[string]kept{}
	}
	for _, k := range c.tables {
		if r, ok := more[k.spec.Name]; ok {
			if err := k.fits(r); err != nil {
				return err
			}
			all[k.spec.Name] = k.residual()
		}
		if r, ok := more[k.spec.Name+ofSums]; ok && k.back != nil {
			if err := (&coder{spec: k.spec, dense: k.back}).fits(r); err != nil {
				return err
			}
			all[k.spec.Name+ofSums] = kept{values: k.back.Residual()}
		}
	}
	for name, r := range more {
		if have, ok := all[name]; ok {
			var err error
			if r, err = have.plus(r); err != nil {
				return fmt.Errorf("table %q: %w", name, err)
			}
		}
		all[name] = r
	}
	c.waits = all
	for _, k := range c.tables {
		if err := c.restored(k); err != nil {
			return err
		}
	}
	return nil
}

// restored gives a table the residual that waits for it.
func (c *coders) restored(k *coder) error {
	if r, ok := c.waits[k.spec.Name+ofSums]; ok && k.back != nil {
		if err := k.back.Restore(r.values); err != nil {
			return err
		}
		delete(c.waits, k.spec.Name+ofSums)
	}
	r, ok := c.waits[k.spec.Name]
	if !ok {
		return nil
	}
	if err := k.fits(r); err != nil {
		return err
	}
	delete(c.waits, k.spec.Name)
	k.made = false
	if k.dense != nil {
		return k.dense.Restore(r.values)
	}
	return k.rows.Restore(r.keys, r.values)
}

// put keeps the residuals of a table that goes away, by its name.
func (c *coders) put(k *coder) {
	c.waits[k.spec.Name] = k.residual()
	if k.back != nil {
		c.waits[k.spec.Name+ofSums] = kept{values: k.back.Residual()}
	}
	delete(c.tables, k.spec.ID)
}

// decodeResiduals reads what encode has written; it checks every length.
func decodeResiduals(b []byte) (map[string]kept, error) {
	le := binary.LittleEndian
	if len(b) < len(residualsMagic)+8 || string(b[:4]) != residualsMagic {
		return nil, fmt.Errorf("%d bytes do not begin as they must: %w", len(b), errResiduals)
	}
	body := b[:len(b)-crcLen]
	if got, want := crc32.Checksum(body, castagnoli), le.Uint32(b[len(body):]); got != want {
		return nil, fmt.Errorf("checksum is %#x, want %#x: %w", got, want, errResiduals)
	}
	n, rest := le.Uint32(body[4:]), body[8:]
	all := map[string]kept{}
	last := ""
	for i := range n {
		name, r, after, err := decodeKept(rest)
		if err != nil {
			return nil, fmt.Errorf("table %d of %d, byte %d: %w", i, n, len(body)-len(rest), err)
		}
		if i > 0 && cmp.Compare(last, name) >= 0 {
			return nil, fmt.Errorf("table %q after %q: %w", name, last, errResiduals)
		}
		all[name], last, rest = r, name, after
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes behind the last table: %w", len(rest), errResiduals)
	}
	return all, nil
}

func decodeKept(b []byte) (name string, r kept, rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < 4 || uint64(len(b)-4) < uint64(le.Uint32(b))+12 {
		return "", r, nil, fmt.Errorf("%d bytes are too few: %w", len(b), errResiduals)
	}
	n := int(le.Uint32(b))
	name, b = string(b[4:][:n]), b[4+n:]
	rows, dim := le.Uint64(b), uint64(le.Uint32(b[8:]))
	b = b[12:]
	width := uint64(4)
	if dim > 0 {
		width = 8 + 4*dim
	}
	if rows > uint64(len(b))/width {
		return "", r, nil, fmt.Errorf("table %q: %d rows of %d values do not fit in %d bytes: %w", name, rows, dim, len(b), errResiduals)
	}
	r.dim = int(dim)
	values := int(rows)
	if dim > 0 {
		r.keys = slices.Clone(vec.Uint64s(b[:8*rows]))
		b = b[8*rows:]
		values *= int(dim)
		for i := 1; i < len(r.keys); i++ {
			if r.keys[i] <= r.keys[i-1] {
				return "", r, nil, fmt.Errorf("table %q: key %d after key %d: %w", name, r.keys[i], r.keys[i-1], errResiduals)
			}
		}
	}
	r.values = slices.Clone(vec.Floats(b[:4*values]))
	if i := vec.NonFinite(r.values); i >= 0 {
		return "", r, nil, fmt.Errorf("table %q: value %d is %v: %w", name, i, r.values[i], errResiduals)
	}
	return name, r, b[4*values:], nil
}
