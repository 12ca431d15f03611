package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report is what an examination found, in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Err wraps ErrWillFail when something will fail.
func (r Report) Err() error {
	n := r.count(Fail)
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d findings: %w", n, len(r.Findings), ErrWillFail)
}

func (r Report) count(l Level) (n int) {
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// WriteJSON writes one line: the findings and how many there are of each level.
func (r Report) WriteJSON(w io.Writer) error {
	out := struct {
		Report
		OK   int `json:"ok"`
		Warn int `json:"warn"`
		Fail int `json:"fail"`
	}{Report{slices.Concat([]Finding{}, r.Findings)}, r.count(OK), r.count(Warn), r.count(Fail)}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Write writes the report for people: a block per check, what to do below what was found.
func (r Report) Write(w io.Writer) error {
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Check))
	}
	var b strings.Builder
	last := ""
	for _, f := range r.Findings {
		name := f.Check
		if name == last {
			name = ""
		}
		last = f.Check
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", f.Level, width, name, f.What)
		if f.Do != "" {
			fmt.Fprintf(&b, "%*s-> %s\n", width+8, "", f.Do)
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d to look at, %d that will fail\n", r.count(OK), r.count(Warn), r.count(Fail))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
