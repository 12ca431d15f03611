package collbench

import (
	"encoding/json"
	"fmt"
	"io"

	"hcclps/p2p/collective"
)

// Table prints results as they come, in the columns of nccl-tests.
type Table struct {
	w    io.Writer
	json bool
	head string // not yet written
}

// NewTable prints a table for people to w, or a line of JSON a result.
func NewTable(w io.Writer, json bool) *Table { return &Table{w: w, json: json} }

// Head says what stands above the first row: nothing under JSON.
func (t *Table) Head(title string) {
	if !t.json {
		t.head = fmt.Sprintf("# %s\n#%11s %10s %8s %6s %12s %10s %8s %8s %7s\n#%11s %10s %8s %6s %12s %10s %8s %8s %7s\n", title,
			"size", "count", "type", "redop", "algo", "time", "algbw", "busbw", "#wrong",
			"(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "")
	}
}

// Links writes what links were measured to be: nothing under JSON.
func (t *Table) Links(inside, _ collective.Link) error {
	if t.json {
		return nil
	}
	_, err := fmt.Fprintf(t.w, "# links: %v, %v for each further message, %.3g GB/s to %d at once, %.3g GB/s folded\n",
		inside.Alpha, inside.Post, inside.Bandwidth/1e9, inside.Ports, inside.Reduce/1e9)
	return err
}

// Row writes one result.
func (t *Table) Row(r Result) error {
	if t.json {
		return json.NewEncoder(t.w).Encode(r)
	}
	_, err := fmt.Fprintf(t.w, "%s%12d %10d %8s %6s %12s %10.2f %8.3g %8.3g %7d\n",
		t.head, r.Size, r.Count, r.Type, r.Redop, r.Algorithm, r.Micros, r.Algbw, r.Busbw, r.Wrong)
	t.head = ""
	return err
}
