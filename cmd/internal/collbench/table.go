package collbench

import (
	"encoding/json"
	"fmt"
	"io"
)

// Table prints results as they come, in the columns of nccl-tests.
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
	_, err := fmt.Fprintf(t.w, "# %s\n#%11s %10s %8s %6s %12s %10s %8s %8s %7s\n#%11s %10s %8s %6s %12s %10s %8s %8s %7s\n", title,
		"size", "count", "type", "redop", "algo", "time", "algbw", "busbw", "#wrong",
		"(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "")
	return err
}

// Row writes one result.
func (t *Table) Row(r Result) error {
	if t.json {
		return json.NewEncoder(t.w).Encode(r)
	}
	_, err := fmt.Fprintf(t.w, "%12d %10d %8s %6s %12s %10.2f %8.3g %8.3g %7d\n",
		r.Size, r.Count, r.Type, r.Redop, r.Algorithm, r.Micros, r.Algbw, r.Busbw, r.Wrong)
	return err
}
