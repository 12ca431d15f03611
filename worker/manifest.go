package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"hcclps/ps/wire"
	"hcclps/worker/dataset"
)

// Why a model directory cannot be loaded, for errors.Is.
var (
	ErrModelVersion = errors.New("the model was saved by a newer version of this program")
	ErrModelDamaged = errors.New("the model directory is damaged")
)

const (
	manifestName   = "manifest.json"
	manifestFormat = "hcclps-model"
	manifestMax    = 64 << 20
	// ModelVersion is the newest format of a model directory that this program
	// writes and reads.
	ModelVersion = 1
)

// About is what a model directory says of its model beside the parameters.
type About struct {
	Model   string          `json:"model,omitempty"`   // its name
	Options json.RawMessage `json:"options,omitempty"` // what it was made with
	Schema  *dataset.Schema `json:"schema,omitempty"`  // of its data, with all that was fitted
}

// described says whether anything is said.
func (a *About) described() bool { return a.Model != "" || a.Options != nil || a.Schema != nil }

// Manifest describes a model directory: DIR/manifest.json.
type Manifest struct {
	Format  string       `json:"format"`
	Version int          `json:"version"`
	Job     string       `json:"job"`
	Step    uint64       `json:"step"` // steps that had been completed
	About   About        `json:"about"`
	Tables  []SavedTable `json:"tables"` // ascending id

	id   uint64 // of the load
	from origin
	bare bool // tables are to be described by the model
}

// SavedTable is a table of a model directory and the file of its rows.
type SavedTable struct {
	Table wire.Table     `json:"table"`
	Rule  wire.RuleState `json:"rule"`  // what the optimizer remembers beside rows
	Width int            `json:"width"` // float32 a row: weights, then optimizer slots
	Rows  uint64         `json:"rows"`
	File  string         `json:"file"`
	CRC   uint32         `json:"crc32c"` // of the file
}

// ReadManifest reads the description of a model directory and checks it; Load
// checks the rows. A newer format is ErrModelVersion, a directory that cannot be
// one ErrModelDamaged.
func ReadManifest(dir string) (*Manifest, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, fmt.Errorf("open model directory %s: %w", dir, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, manifestMax))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read model directory %s: %w", dir, err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("model directory %s: %s: %w", dir, manifestName, err)
	}
	m.from = folder(dir)
	return m, nil
}

func decodeManifest(b []byte) (*Manifest, error) {
	m := &Manifest{}
	damaged := func(format string, args ...any) (*Manifest, error) {
		return nil, fmt.Errorf("%w: %s", ErrModelDamaged, fmt.Sprintf(format, args...))
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil || head.Format != manifestFormat {
		return damaged("format %q, want %q (%v)", head.Format, manifestFormat, err)
	}
	if head.Version > ModelVersion {
		return nil, fmt.Errorf("%w: it has format version %d, this program reads up to %d", ErrModelVersion, head.Version, ModelVersion)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return damaged("byte %d: %v", d.InputOffset(), err)
	}
	if m.Version < 1 {
		return damaged("format version %d", m.Version)
	}
	for i, t := range m.Tables {
		switch {
		case i > 0 && m.Tables[i-1].Table.ID >= t.Table.ID, t.Table.Name == "":
			return damaged("table %d, %q, is out of order or has no name", t.Table.ID, t.Table.Name)
		case slices.ContainsFunc(m.Tables[:i], func(o SavedTable) bool { return o.Table.Name == t.Table.Name || o.File == t.File }):
			return damaged("table %q or its file %q is there twice", t.Table.Name, t.File)
		case t.Width < int(t.Table.Dim) || t.Width < 1 || t.Width > maxWidth || t.Rows > 1<<48:
			return damaged("table %q: %d rows of %d values, %d of them weights", t.Table.Name, t.Rows, t.Width, t.Table.Dim)
		case t.File != filepath.Base(t.File) || !filepath.IsLocal(t.File):
			return damaged("table %q: file %q is not in the directory", t.Table.Name, t.File)
		}
	}
	sum := sha256.Sum256(b)
	m.id = max(binary.LittleEndian.Uint64(sum[:]), 1)
	return m, nil
}
