package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// What the header of a file says.
const (
	formatName    = "hcclps trace"
	formatVersion = 1
)

// header is what the trace event format leaves to the writer: "otherData".
type header struct {
	Format    string          `json:"format"`
	Version   int             `json:"version"`
	Origin    time.Time       `json:"origin"`
	Processes []processHeader `json:"processes"`
}

type processHeader struct {
	ID     int       `json:"id"`
	Name   string    `json:"name"`
	Origin time.Time `json:"origin"`
	Shift  int64     `json:"shift_ns,omitempty"`
	Lost   uint64    `json:"lost,omitempty"`
}

// Write writes the file: a JSON object in the trace event format, a line an event.
func (t *Trace) Write(w io.Writer) error {
	h := header{Format: formatName, Version: formatVersion, Origin: t.Origin, Processes: []processHeader{}}
	for _, p := range t.Processes {
		h.Processes = append(h.Processes, processHeader{p.ID, p.Name, p.Origin, int64(p.Shift), p.Lost})
	}
	head, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	out := &writer{w: bufio.NewWriterSize(w, 1<<16), quoted: map[string]string{}}
	out.w.WriteString(`{"otherData":` + string(head) + `,"displayTimeUnit":"ms","traceEvents":[`)
	for i, p := range t.Processes {
		out.meta("process_name", p.ID, 0, `"name":`+out.quote(p.Name))
		out.meta("process_sort_index", p.ID, 0, `"sort_index":`+strconv.Itoa(i))
		for _, th := range p.Threads {
			out.meta("thread_name", p.ID, th.ID, `"name":`+out.quote(th.Name))
			out.meta("thread_sort_index", p.ID, th.ID, `"sort_index":`+strconv.Itoa(th.ID))
		}
	}
	for i := range t.Events {
		out.event(&t.Events[i])
	}
	out.w.WriteString("\n]}\n")
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

// writer writes one event after the other. The error of its buffer is kept for the end.
type writer struct {
	w      *bufio.Writer
	quoted map[string]string // names, which are few, as JSON
	line   []byte
	more   bool
}

func (o *writer) quote(s string) string {
	q, ok := o.quoted[s]
	if !ok {
		b, err := json.Marshal(s)
		if err != nil {
			b = []byte(`""`) // a string always is
		}
		q = string(b)
		if len(o.quoted) < 4096 {
			o.quoted[s] = q
		}
	}
	return q
}

// begin begins an event with what all have.
func (o *writer) begin(ph Phase, name string, process, thread int) []byte {
	b := o.line[:0]
	if o.more {
		b = append(b, ',')
	}
	o.more = true
	b = append(b, "\n{\"ph\":\""...)
	b = append(b, byte(ph))
	b = append(append(b, `","name":`...), o.quote(name)...)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(process), 10)
	return strconv.AppendInt(append(b, `,"tid":`...), int64(thread), 10)
}

func (o *writer) end(b []byte) {
	b = append(b, '}')
	o.w.Write(b)
	o.line = b
}

func (o *writer) meta(name string, process, thread int, args string) {
	b := o.begin('M', name, process, thread)
	o.end(append(append(append(b, `,"args":{`...), args...), '}'))
}

func (o *writer) event(e *Event) {
	b := o.begin(e.Phase, e.Name, e.Process, e.Thread)
	b = append(append(b, `,"cat":`...), o.quote(e.Category)...)
	b = appendMicros(append(b, `,"ts":`...), e.Time)
	switch e.Phase {
	case Complete:
		b = appendMicros(append(b, `,"dur":`...), e.Duration)
		b = o.args(b, e)
	case Instant:
		b = append(b, `,"s":"t"`...)
	case Counter:
		b = append(strconv.AppendInt(append(b, `,"args":{"value":`...), e.Value, 10), '}')
	case FlowStart:
		b = strconv.AppendUint(append(b, `,"id":`...), e.Flow, 10)
	case FlowEnd:
		b = strconv.AppendUint(append(b, `,"bp":"e","id":`...), e.Flow, 10)
	}
	o.end(b)
}

// args writes what a span says beside its time.
func (o *writer) args(b []byte, e *Event) []byte {
	at := len(b)
	sep := func(name string) {
		if len(b) == at {
			b = append(b, `,"args":{"`...)
		} else {
			b = append(b, `,"`...)
		}
		b = append(append(b, name...), `":`...)
	}
	if e.Step != NoStep {
		sep("step")
		b = strconv.AppendInt(b, e.Step, 10)
	}
	if e.Bytes != 0 {
		sep("bytes")
		b = strconv.AppendInt(b, e.Bytes, 10)
	}
	if e.Peer != "" {
		sep("peer")
		b = append(b, o.quote(e.Peer)...)
	}
	if e.Table != "" {
		sep("table")
		b = append(b, o.quote(e.Table)...)
	}
	if len(b) > at {
		b = append(b, '}')
	}
	return b
}

// appendMicros writes a time as microseconds with three decimals.
func appendMicros(b []byte, d time.Duration) []byte {
	if d < 0 {
		b, d = append(b, '-'), -d
	}
	b = strconv.AppendInt(b, int64(d)/1000, 10)
	n := int64(d) % 1000
	return append(b, '.', byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10))
}

// WriteFile writes the file at path, whole or not at all.
func (t *Trace) WriteFile(path string) error { return writeFile(path, t.Write) }

// writeFile gives path what write writes when that has succeeded: what was there before stays until then.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
