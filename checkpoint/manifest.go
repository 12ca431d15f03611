package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"hcclps/ps/layout"
)

const (
	manifestFormat = "hcclps-checkpoint"
	manifestMax    = 256 << 20
	// Version is the newest format of checkpoints that this program writes and
	// reads.
	Version = 1
	// MaxChain is how many deltas may stand on a full checkpoint.
	MaxChain = 16
	maxTag   = 64
)

// Manifest describes a checkpoint: a file of the folder, which holds all of it
// but the bytes of rows and blobs.
type Manifest struct {
	Format   string          `json:"format"`
	Version  int             `json:"version"`
	ID       uint64          `json:"id"`      // grows; the log index of the meta group's entry
	Number   uint64          `json:"number"`  // of the job's checkpoints, from 1
	Cluster  string          `json:"cluster"` // that made it
	Job      string          `json:"job"`
	Step     uint64          `json:"step"`    // steps complete in it
	Created  time.Time       `json:"created"` // for people
	HashSeed uint64          `json:"hash_seed"`
	Shards   int             `json:"shards"`
	Layout   *layout.Layout  `json:"layout,omitempty"` // of the cluster, if there was one
	Params   json.RawMessage `json:"params,omitempty"` // of the job, opaque
	Base     *Base           `json:"base,omitempty"`   // nil: full
	Tables   []Table         `json:"tables"`           // ascending id
	Workers  []Worker        `json:"workers"`          // ascending rank, name
	Parts    []Part          `json:"parts"`            // ascending group
}

// Base is the checkpoint a delta stands on.
type Base struct {
	ID     uint64 `json:"id"`
	SHA256 string `json:"sha256"` // of its manifest
	Chain  int    `json:"chain"`  // deltas up to this one
}

// Table describes a table: what is needed to read its rows, and what its owner
// says of it.
type Table struct {
	ID     uint32          `json:"id"`
	Name   string          `json:"name"`
	Shape  []uint32        `json:"shape,omitempty"`  // dense: of the tensor, whose elements are cut into rows of Dim
	Dim    uint32          `json:"dim"`              // weights a row
	Slots  uint32          `json:"slots"`            // optimizer slots a row
	Schema json.RawMessage `json:"schema,omitempty"` // opaque: all of the description
	State  json.RawMessage `json:"state,omitempty"`  // opaque: what the optimizer remembers beside rows
}

func (t *Table) stride() int { return rowHead + 4*int(t.Dim+t.Slots) }

// Worker is a session at the cut.
type Worker struct {
	Name        string `json:"name"`
	Rank        uint32 `json:"rank"`
	Incarnation uint64 `json:"incarnation"`
	Session     string `json:"session"` // open, finished, expelled
	Clock       uint64 `json:"clock"`   // steps complete
	Cursor      []byte `json:"cursor"`  // position in its data
}

// Part is what the writer of one group made, as Writer.Finish returns it.
type Part struct {
	Group  uint32      `json:"group"`
	File   string      `json:"file"`
	Bytes  int64       `json:"bytes"`  // of the file
	SHA256 string      `json:"sha256"` // of the file
	New    int64       `json:"new"`    // bytes of packs written for it
	Reused int64       `json:"reused"` // bytes of chunks that were there already
	Tables []PartTable `json:"tables"` // ascending id: what the group has, base included
}

// PartTable counts the pages of a table in one group, those of the base
// included. SHA256 is that of, page by page in ascending order, partition u16,
// page u32 and the SHA-256 of its bytes: equal rows in equal pages have equal
// digests.
type PartTable struct {
	ID     uint32 `json:"id"`
	Pages  uint64 `json:"pages"`
	Rows   uint64 `json:"rows"`
	Bytes  uint64 `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Rows is the number of rows of a table in the checkpoint.
func (m *Manifest) Rows(table uint32) (n uint64) {
	for i := range m.Parts {
		for _, t := range m.Parts[i].Tables {
			if t.ID == table {
				n += t.Rows
			}
		}
	}
	return n
}

// Table finds a table by name.
func (m *Manifest) Table(name string) (Table, bool) {
	for _, t := range m.Tables {
		if t.Name == name {
			return t, true
		}
	}
	return Table{}, false
}

func (m *Manifest) table(id uint32) *Table {
	i := slices.IndexFunc(m.Tables, func(t Table) bool { return t.ID == id })
	if i < 0 {
		return nil
	}
	return &m.Tables[i]
}

func (m *Manifest) part(group uint32) *Part {
	i := slices.IndexFunc(m.Parts, func(p Part) bool { return p.Group == group })
	if i < 0 {
		return nil
	}
	return &m.Parts[i]
}

// seal is how a manifest ends, in every version: the CRC of all bytes before its
// digits.
const (
	sealBegin = ",\n  \"crc32c\": \""
	sealEnd   = "\"\n}\n"
)

func (m *Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	b = append(bytes.TrimSuffix(b, []byte("\n}")), sealBegin...)
	return fmt.Appendf(b, "%08x%s", crc32.Checksum(b, castagnoli), sealEnd), nil
}

// decodeManifest checks everything that can be checked without other files. Its
// error is a *DamageError without a file, or ErrVersion.
func decodeManifest(b []byte) (*Manifest, error) {
	bad := func(at int64, format string, args ...any) (*Manifest, error) {
		return nil, &DamageError{Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
	n := len(b) - len(sealEnd) - 8
	if n < 0 || string(b[n+8:]) != sealEnd || !bytes.HasSuffix(b[:n], []byte(sealBegin)) {
		return bad(int64(max(n, 0)), "it does not end as a manifest does")
	}
	if got, want := fmt.Sprintf("%08x", crc32.Checksum(b[:n], castagnoli)), string(b[n:n+8]); got != want {
		return bad(int64(n), "CRC-32C is %s, the file says %s", got, want)
	}
	body := slices.Concat(bytes.TrimSuffix(b[:n], []byte(sealBegin)), []byte("\n}"))
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return bad(0, "it is no manifest of a checkpoint: %v", err)
	}
	if head.Format != manifestFormat || head.Version < 1 {
		return bad(0, "format %q, version %d: it is no manifest of a checkpoint", head.Format, head.Version)
	}
	if head.Version > Version {
		return nil, fmt.Errorf("format version %d, this program reads up to %d: %w", head.Version, Version, ErrVersion)
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return bad(d.InputOffset(), "%v", err)
	}
	if err := m.validate(); err != nil {
		return bad(0, "%v", err)
	}
	return m, nil
}

// validate checks what Commit writes and what a file says.
func (m *Manifest) validate() error {
	switch {
	case m.ID == 0:
		return fmt.Errorf("checkpoint %d: want an id from 1", m.ID)
	case m.Shards < 1 || m.Shards > layout.Partitions:
		return fmt.Errorf("%d shards: want 1 to %d", m.Shards, layout.Partitions)
	case m.Base != nil && (m.Base.ID == 0 || m.Base.ID >= m.ID || m.Base.Chain < 1 || m.Base.Chain > MaxChain || len(m.Base.SHA256) != 2*sha256.Size):
		return fmt.Errorf("base %d, number %d in a chain", m.Base.ID, m.Base.Chain)
	}
	if l := m.Layout; l != nil && (len(l.Shards) != m.Shards || l.HashSeed != m.HashSeed) {
		return fmt.Errorf("%d shards and hash seed %d, the layout has %d and %d", m.Shards, m.HashSeed, len(l.Shards), l.HashSeed)
	}
	if err := validTables(m.Tables); err != nil {
		return err
	}
	for i, p := range m.Parts {
		switch {
		case i > 0 && m.Parts[i-1].Group >= p.Group || int64(p.Group) > int64(m.Shards):
			return fmt.Errorf("part of %s is out of order, or one of %d shards", layout.GroupName(p.Group), m.Shards)
		case !plain(p.File, kindPart) || p.Bytes < partFixed+8 || p.Bytes > maxPartFile || len(p.SHA256) != 2*sha256.Size:
			return fmt.Errorf("part of %s: file %q of %d bytes", layout.GroupName(p.Group), p.File, p.Bytes)
		}
		for j, t := range p.Tables {
			if j > 0 && p.Tables[j-1].ID >= t.ID || m.table(t.ID) == nil || t.Pages > 1<<48 || t.Rows > 1<<48 {
				return fmt.Errorf("part of %s: table %d is out of order, unknown, or has %d rows in %d pages", layout.GroupName(p.Group), t.ID, t.Rows, t.Pages)
			}
		}
	}
	for g := 1; g <= m.Shards; g++ {
		if m.part(uint32(g)) == nil {
			return fmt.Errorf("the part of %s is missing, there are %d shards", layout.GroupName(uint32(g)), m.Shards)
		}
	}
	return nil
}

func validTables(tables []Table) error {
	names := map[string]bool{}
	for i, t := range tables {
		switch {
		case t.Name == "" || len(t.Name) > 1<<10 || names[t.Name]:
			return fmt.Errorf("table %d: name %q is empty, too long, or there twice", t.ID, t.Name)
		case i > 0 && tables[i-1].ID >= t.ID:
			return fmt.Errorf("table %q: id %d is out of order", t.Name, t.ID)
		case t.Dim < 1 || t.Dim > maxRow/4 || t.Slots > maxRow/4 || t.stride() > maxRow:
			return fmt.Errorf("table %q: %d weights and %d slots a row: a row has at most %d bytes", t.Name, t.Dim, t.Slots, maxRow)
		case len(t.Shape) > 16:
			return fmt.Errorf("table %q: a tensor of %d dimensions", t.Name, len(t.Shape))
		}
		names[t.Name] = true
	}
	return nil
}
