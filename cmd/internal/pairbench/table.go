package pairbench

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
	_, err := fmt.Fprintf(t.w, "# %s\n#%11s %10s %6s %6s %10s %7s %7s %9s %6s %8s %6s\n#%11s %10s %6s %6s %10s %7s %7s %9s %6s %8s %6s\n", title,
		"size", "count", "type", "redop", "one-way", "algbw", "busbw", "CPU", "slots", "messages", "wrong",
		"(B)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "(s/GB)", "", "a round", "#")
	return err
}

// Row writes one result.
func (t *Table) Row(r Result) error {
	if t.json {
		return json.NewEncoder(t.w).Encode(r)
	}
	_, err := fmt.Fprintf(t.w, "%12d %10d %6s %6s %10.2f %7s %7s %9.3f %6d %8d %6d\n",
		r.Size, r.Count, r.Type, r.Redop, r.Micros, digits(r.Algbw), digits(r.Busbw), r.CPU, r.Slots, r.Number, r.Wrong)
	return err
}

// digits shows about three digits of a rate.
func digits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
