package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"hcclps/ps/layout"
)

const (
	pageHead = 2  // bytes before the rows of a page
	rowHead  = 16 // bytes before the values of a row
	maxRow   = 1 << 20
)

// PageID names a page of a table: its place in its partition's order of arrival.
// A partition is never cut, so a page is the same under any number of shards.
type PageID struct {
	Table     uint32
	Partition uint16
	Page      uint32
}

// String is table/partition/page.
func (p PageID) String() string { return fmt.Sprintf("%d/%d/%d", p.Table, p.Partition, p.Page) }

func (p PageID) packed() uint64 { return uint64(p.Partition)<<32 | uint64(p.Page) }

func unpackPage(table uint32, page uint64) PageID {
	return PageID{Table: table, Partition: uint16(page >> 32), Page: uint32(page)}
}

// Page is some rows of one partition of a table, in the form that ps/table gives
// and takes: the number of rows in two bytes, then that many records (see Row).
type Page struct {
	PageID
	Data []byte
}

// Row is a row of a table as it is stored.
type Row struct {
	Table uint32 // id
	// Record is key u64, step of the last update u32, sightings u16, writer u16,
	// weights, optimizer slots; float32 each, all little endian.
	Record []byte
	dim    int
}

// Key is the row's key.
func (r Row) Key() uint64 { return le.Uint64(r.Record) }

// Step is the step of the last update, as the table counts it.
func (r Row) Step() uint32 { return le.Uint32(r.Record[8:]) }

// Sightings is how often the row was updated, at most 65,535.
func (r Row) Sightings() uint16 { return le.Uint16(r.Record[12:]) }

// Writer is the number of the worker that wrote last, in its shard's list.
func (r Row) Writer() uint16 { return le.Uint16(r.Record[14:]) }

// Weights are the weights, four bytes each.
func (r Row) Weights() []byte { return r.Record[rowHead : rowHead+4*r.dim] }

// Slots are the optimizer's slots, four bytes each.
func (r Row) Slots() []byte { return r.Record[rowHead+4*r.dim:] }

// Weight is one of the weights.
func (r Row) Weight(i int) float32 {
	return math.Float32frombits(le.Uint32(r.Record[rowHead+4*i:]))
}

// rowsOf is the number of rows of a page of so many bytes.
func rowsOf(bytes uint32, stride int) (rows int, ok bool) {
	n := int(bytes) - pageHead
	return n / stride, n > 0 && n%stride == 0 && n/stride <= math.MaxUint16
}

// checkPage proves that data is a page of the table, of a partition that the
// group has.
func checkPage(p Page, t *Table, group uint32, shards int) error {
	rows, ok := rowsOf(uint32(min(len(p.Data), maxChunk+1)), t.stride())
	switch {
	case len(p.Data) > maxChunk:
		return fmt.Errorf("page %v has %d bytes, at most %d can be", p.PageID, len(p.Data), maxChunk)
	case p.Partition >= layout.Partitions:
		return fmt.Errorf("page %v: partition %d of %d", p.PageID, p.Partition, layout.Partitions)
	case layout.ShardOf(int(p.Partition), shards)+1 != group:
		return fmt.Errorf("page %v belongs to shard %d, this is %s", p.PageID, layout.ShardOf(int(p.Partition), shards), layout.GroupName(group))
	case !ok || rows != int(le.Uint16(p.Data)):
		return fmt.Errorf("page %v of table %q: %d bytes are not whole rows of %d", p.PageID, t.Name, len(p.Data), t.stride())
	}
	return nil
}

// countTables describes what a group has of each table. The pages are ascending.
func countTables(tables []Table, pages []entry) []PartTable {
	all := make([]PartTable, 0, len(tables))
	for i := range tables {
		t := &tables[i]
		for len(pages) > 0 && pages[0].table < t.ID {
			pages = pages[1:] // of a table that is gone
		}
		of := PartTable{ID: t.ID}
		h := sha256.New()
		var b []byte
		for ; len(pages) > 0 && pages[0].table == t.ID; pages = pages[1:] {
			e := &pages[0]
			rows, _ := rowsOf(e.n, t.stride())
			of.Pages++
			of.Rows += uint64(rows)
			of.Bytes += uint64(e.n)
			id := unpackPage(e.table, e.page)
			b = le.AppendUint32(le.AppendUint16(b[:0], id.Partition), id.Page)
			h.Write(append(b, e.sum[:]...))
		}
		of.SHA256 = hex.EncodeToString(h.Sum(nil))
		all = append(all, of)
	}
	return all
}

// newRow makes a row of its parts.
func newRow(t *Table, key uint64, step uint32, sightings uint16, values []float32) Row {
	b := le.AppendUint64(make([]byte, 0, t.stride()), key)
	b = le.AppendUint32(b, step)
	b = le.AppendUint16(b, sightings)
	b = le.AppendUint16(b, 0)
	for _, v := range values {
		b = le.AppendUint32(b, math.Float32bits(v))
	}
	return Row{Table: t.ID, Record: b, dim: int(t.Dim)}
}
