package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// A file of rows, little endian, keys ascending:
//
//	0   8  "hclprows"
//	8   4  version 1
//	12  4  values a row
//	16     rows: u64 key | u32 sightings | values x f32, weights, then slots
const (
	rowMagic   = "hclprows"
	rowVersion = 1
	rowHead    = 16
	rowFixed   = 12      // of a row, before its values
	maxWidth   = 1 << 18 // values a row
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rowWriter writes such a file. It keeps the first error for flush.
type rowWriter struct {
	to    *bufio.Writer
	crc   hash.Hash32
	width int
	rows  uint64
	row   []byte
}

func newRowWriter(w io.Writer) *rowWriter {
	crc := crc32.New(castagnoli)
	return &rowWriter{to: bufio.NewWriterSize(io.MultiWriter(w, crc), 1<<16), crc: crc}
}

func (w *rowWriter) head(width int) {
	b := binary.LittleEndian.AppendUint32([]byte(rowMagic), rowVersion)
	w.to.Write(binary.LittleEndian.AppendUint32(b, uint32(width)))
	w.width = width
}

func (w *rowWriter) add(r wire.Row) error {
	if len(r.Values) != w.width {
		return fmt.Errorf("key %d has %d values, want %d", r.Key, len(r.Values), w.width)
	}
	w.row = binary.LittleEndian.AppendUint64(w.row[:0], r.Key)
	w.row = binary.LittleEndian.AppendUint32(w.row, uint32(r.Sightings))
	w.row = append(w.row, vec.BytesOfFloats(r.Values)...)
	w.rows++
	_, err := w.to.Write(w.row)
	return err
}

// rowReader reads one, checking what it can before the last byte; the caller
// compares the CRC.
type rowReader struct {
	from  *bufio.Reader
	crc   hash.Hash32
	width int
	left  uint64
	last  uint64
	begun bool
	buf   []byte
}

// newRowReader reads the head of a file with so many rows.
func newRowReader(r io.Reader, rows uint64, width int) (*rowReader, error) {
	crc := crc32.New(castagnoli)
	in := &rowReader{from: bufio.NewReaderSize(io.TeeReader(r, crc), 1<<16), crc: crc, width: width, left: rows}
	head := make([]byte, rowHead)
	if _, err := io.ReadFull(in.from, head); err != nil {
		return nil, fmt.Errorf("%w: head: %w", ErrModelDamaged, err)
	}
	version, has := binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:])
	switch {
	case string(head[:8]) != rowMagic:
		return nil, fmt.Errorf("%w: it is no file of rows", ErrModelDamaged)
	case version < 1:
		return nil, fmt.Errorf("%w: rows of version %d", ErrModelDamaged, version)
	case version > rowVersion:
		return nil, fmt.Errorf("%w: rows of version %d, this program reads up to %d", ErrModelVersion, version, rowVersion)
	case int64(has) != int64(width):
		return nil, fmt.Errorf("%w: rows of %d values, want %d", ErrModelDamaged, has, width)
	}
	in.buf = make([]byte, rowFixed+4*width)
	return in, nil
}

// next reads a row, or returns io.EOF after the last. Its values alias the
// reader's memory.
func (r *rowReader) next() (wire.Row, error) {
	if r.left == 0 {
		if n, err := r.from.Read(r.buf[:1]); n > 0 || !errors.Is(err, io.EOF) {
			return wire.Row{}, fmt.Errorf("%w: bytes after the last row", ErrModelDamaged)
		}
		return wire.Row{}, io.EOF
	}
	if _, err := io.ReadFull(r.from, r.buf); err != nil {
		return wire.Row{}, fmt.Errorf("%w: %d rows are missing: %w", ErrModelDamaged, r.left, noEOF(err))
	}
	row := wire.Row{Key: binary.LittleEndian.Uint64(r.buf), Values: make([]float32, 0, r.width)}
	sightings := binary.LittleEndian.Uint32(r.buf[8:])
	row.Sightings = uint16(sightings)
	if sightings > 1<<16-1 || r.begun && row.Key <= r.last {
		return row, fmt.Errorf("%w: key %d after key %d, seen %d times", ErrModelDamaged, row.Key, r.last, sightings)
	}
	row.Values = append(row.Values, vec.Floats(r.buf[rowFixed:])...)
	r.left--
	r.last, r.begun = row.Key, true
	return row, nil
}

// noEOF keeps the end of a cut file from looking like the end of its rows.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readRows visits the rows of a table of a model directory, all of them checked.
func (t *SavedTable) readRows(dir string, visit func(wire.Row) error) (err error) {
	name := filepath.Join(dir, t.File)
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open rows of table %q: %w", t.Table.Name, err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("rows of table %q in %s: %w", t.Table.Name, name, err)
		}
	}()
	in, err := newRowReader(f, t.Rows, t.Width)
	if err != nil {
		return err
	}
	for {
		row, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = visit(row)
		}
		if err != nil {
			return err
		}
	}
	if sum := in.crc.Sum32(); sum != t.CRC {
		return fmt.Errorf("%w: CRC-32C is %08x, the manifest says %08x", ErrModelDamaged, sum, t.CRC)
	}
	return nil
}
