package table

import (
	"errors"
	"sync"

	"hcclps/internal/vec"
)

// Partitions is the number of virtual hash buckets every table is cut into. It is part of every format and never changes.
const Partitions = 1024

// Partition is the bucket of key: the top ten bits of its mix.
func Partition(key, hashSeed uint64) int { return int(vec.Mix64(key, hashSeed) >> 54) }

// Init names how the weights of a row begin. The zero value means zeros.
type Init struct {
	Kind          string
	A, B          float32
	FanIn, FanOut int
}

// Spec says what a table holds.
type Spec struct {
	Dim      int
	Slots    int
	SlotInit []float32
	Init     Init
	Seed     uint64
	HashSeed uint64
	Budget   *Budget
}

// Stamp is what an entry writes into the head of every row it touches.
type Stamp struct {
	Step   uint32
	Writer uint16
}

// Updater changes one row: weights, then slots.
type Updater interface {
	Update(row, grad []float32)
}

// Row is one row as read.
type Row struct {
	Key       uint64
	Step      uint32
	Sightings uint16
	Writer    uint16
	Values    []float32
}

// Stats is the size of a table.
type Stats struct {
	Rows  int64
	Bytes int64
}

var errUnbuilt = errors.New("table: not built yet")

// Table holds rows by 64-bit key.
type Table struct{ spec Spec }

// New makes an empty table.
func New(spec Spec) (*Table, error) { return &Table{spec: spec}, errUnbuilt }

// Spec returns the specification the table was made with.
func (t *Table) Spec() Spec { return t.spec }

// Apply updates one row a key.
func (t *Table) Apply(keys []uint64, grads []float32, st Stamp, u Updater) error { return errUnbuilt }

// Gather reads weights.
func (t *Table) Gather(keys []uint64, out []float32) {}

// Row reads one row.
func (t *Table) Row(key uint64) (Row, bool) { return Row{}, false }

// Scan visits rows in ascending key.
func (t *Table) Scan(after uint64, first bool, limit int, visit func(Row) bool) {}

// Stats counts rows and bytes.
func (t *Table) Stats() Stats { return Stats{} }

// Close unmaps the table.
func (t *Table) Close() error { return nil }

// PageID names one page of a table.
type PageID struct {
	Partition uint16
	Page      uint32
}

// Uint64 packs the id; ids sort as their packed form.
func (p PageID) Uint64() uint64 { return uint64(p.Partition)<<32 | uint64(p.Page) }

// PageIDOf unpacks what Uint64 packed.
func PageIDOf(v uint64) PageID { return PageID{Partition: uint16(v >> 32), Page: uint32(v)} }

// Load restores one page.
func (t *Table) Load(id PageID, data []byte) error { return errUnbuilt }

// Capture begins an epoch.
func (t *Table) Capture() *Capture { return &Capture{} }

// Capture is the table as it was at one moment.
type Capture struct{}

// Pages emits the pages dirtied after epoch since, or all.
func (c *Capture) Pages(all bool, since uint32, emit func(id PageID, data []byte) error, lock sync.Locker) error {
	return errUnbuilt
}

// Epoch is the epoch the capture closed.
func (c *Capture) Epoch() uint32 { return 0 }

// Close frees the copies.
func (c *Capture) Close() {}
