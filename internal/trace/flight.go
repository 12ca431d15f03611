package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// What a flight file says of itself.
const (
	flightName    = "hcclps flight"
	flightVersion = 1
)

// Flight is the last collective operations of a rank, as its flight recorder had them when something went wrong.
type Flight struct {
	Process    string      `json:"process"`
	Rank       int         `json:"rank"`
	World      int         `json:"world"` // ranks of its group
	Written    time.Time   `json:"written"`
	Why        string      `json:"why"`
	Operations []Operation `json:"operations"` // oldest first
}

// Operation is one collective operation as a rank called it.
type Operation struct {
	Group   string    `json:"group"` // names the group's members; equal on all of them
	Epoch   uint64    `json:"epoch"` // of membership
	Seq     uint64    `json:"seq"`   // of the group's operations, from 1
	Call    string    `json:"call"`  // for people: with count, type and algorithm
	Op      string    `json:"op"`
	Bytes   int64     `json:"bytes"`
	Posted  time.Time `json:"posted"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // zero: it was under way
	Error   string    `json:"error,omitempty"`
}

// State is how far the operation was.
func (o *Operation) State() string {
	switch {
	case o.Error != "":
		return "failed"
	case o.Ended.IsZero():
		return "under way"
	default:
		return "ended"
	}
}

// flightFile is Flight as it stands in a file.
type flightFile struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Flight
}

// Write writes the file: one JSON object.
func (f *Flight) Write(w io.Writer) error {
	b, err := json.MarshalIndent(flightFile{flightName, flightVersion, *f}, "", " ")
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write flight: %w", err)
	}
	return nil
}

// WriteFile writes the file at path, whole or not at all.
func (f *Flight) WriteFile(path string) error { return writeFile(path, f.Write) }

// parseFlight reads what Write has written. An error that wraps ErrFormat is a *FormatError.
func parseFlight(b []byte) (*Flight, error) {
	var f flightFile
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&f); err != nil {
		at := dec.InputOffset()
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = syntax.Offset
		} else if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			at = typed.Offset
		}
		return nil, formatError("flight", b, at, err)
	}
	wrong := func(format string, args ...any) (*Flight, error) {
		return nil, formatError("flight", b, dec.InputOffset(), fmt.Errorf(format, args...))
	}
	switch {
	case f.Format != flightName:
		return wrong("format %q, want %q", f.Format, flightName)
	case f.Version != flightVersion:
		return wrong("version %d, want %d", f.Version, flightVersion)
	case f.World < 1 || f.Rank < 0:
		return wrong("rank %d of %d", f.Rank, f.World)
	case len(bytes.TrimSpace(b[dec.InputOffset():])) > 0:
		return wrong("something follows the flight")
	}
	return &f.Flight, nil
}

// Open reads a file that is a trace or a flight: one of the two is not nil.
func Open(path string) (*Trace, *Flight, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	var t *Trace
	var f *Flight
	if bytes.Contains(b[:min(len(b), 256)], []byte(`"`+flightName+`"`)) {
		f, err = parseFlight(b)
	} else {
		t, err = Read(bytes.NewReader(b))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, f, nil
}

// Compare says in sentences what ranks have done differently: who has not begun an operation that others are in, who called something else, what
// has failed. Of the newest epoch of each group; nothing if all ended the same operation well.
func Compare(flights []*Flight) []string {
	newest := map[string]map[int]standing{} // of each group, by rank
	epoch := map[string]uint64{}
	for _, f := range flights {
		for i := range f.Operations {
			o := &f.Operations[i]
			if newest[o.Group] == nil || o.Epoch > epoch[o.Group] {
				newest[o.Group], epoch[o.Group] = map[int]standing{}, o.Epoch
			}
			if last := newest[o.Group][f.Rank]; o.Epoch == epoch[o.Group] && (last.Operation == nil || o.Seq >= last.Seq) {
				newest[o.Group][f.Rank] = standing{o, f.Written}
			}
		}
	}
	var out []string
	for _, group := range sorted(newest) {
		out = append(out, compare(newest[group])...)
	}
	return out
}

// sorted is the keys of a map, ascending.
func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// standing is where a rank was: in its last operation, when its flight was written.
type standing struct {
	*Operation
	written time.Time
}

// compare looks at where each rank of a group was.
func compare(last map[int]standing) []string {
	var first *Operation // the furthest, of the lowest rank
	of := 0
	for _, rank := range sorted(last) {
		if first == nil || last[rank].Seq > first.Seq {
			first, of = last[rank].Operation, rank
		}
	}
	var out []string
	for _, rank := range sorted(last) {
		o := last[rank]
		switch {
		case o.Seq < first.Seq && o.written.Before(first.Started):
			out = append(out, fmt.Sprintf("rank %d wrote its flight before rank %d began %s: its last was %s, %s", rank, of, first.Call, o.Call, o.State()))
		case o.Seq < first.Seq:
			out = append(out, fmt.Sprintf("rank %d has not begun %s, in which rank %d is: its last was %s, %s", rank, first.Call, of, o.Call, o.State()))
		case o.Call != first.Call:
			out = append(out, fmt.Sprintf("rank %d called %s where rank %d called %s", rank, o.Call, of, first.Call))
		}
		if o.Error != "" {
			out = append(out, fmt.Sprintf("rank %d: %s failed: %s", rank, o.Call, strings.TrimSpace(o.Error)))
		} else if o.Ended.IsZero() {
			out = append(out, fmt.Sprintf("rank %d was in %s since %s", rank, o.Call, o.Started.Format(time.RFC3339Nano)))
		}
	}
	return out
}
