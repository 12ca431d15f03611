package pushbench

import (
	"encoding/json"
	"fmt"
	"io"
)

// Table prints results as they come.
type Table struct {
	w    io.Writer
	json bool
}

// NewTable prints a table for people to w, or a line of JSON a result.
func NewTable(w io.Writer, json bool) *Table { return &Table{w, json} }

// Head writes what stands above the columns: nothing under JSON.
func (t *Table) Head(title string) error {
	if t.json {
		return nil
	}
	const form = "#%11s %10s %8s %6s %5s %10s %7s %7s %7s %6s %7s %6s %7s %6s\n"
	_, err := fmt.Fprintf(t.w, "# %s\n"+form+form, title,
		"size", "count", "type", "redop", "op", "time", "algbw", "busbw", "best", "parts", "number", "spread", "memcpy", "wrong",
		"(B)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "", "a round", "", "(GB/s)", "#")
	return err
}

// Row writes one result.
func (t *Table) Row(r Result) error {
	if t.json {
		return json.NewEncoder(t.w).Encode(r)
	}
	_, err := fmt.Fprintf(t.w, "%12d %10d %8s %6s %5s %10.1f %7.2f %7.2f %7.2f %6d %7d %6.2f %7.2f %6d\n",
		r.Size, r.Count, r.Type, r.Redop, r.Op, r.Micros, r.Algbw, r.Busbw, r.Best, r.Parts, r.Number, r.Spread, r.Memcpy, r.Wrong)
	return err
}
