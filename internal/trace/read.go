package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrFormat means that bytes are no trace or flight of this package.
var ErrFormat = errors.New("not of this format")

// maxFile bounds what is read.
const maxFile = 1 << 30

// FormatError says where a file is wrong. It is an ErrFormat.
type FormatError struct {
	What   string // "trace" or "flight"
	Line   int    // from 1
	Column int    // from 1, in bytes
	Err    error
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("no %s: line %d, column %d: %v", e.What, e.Line, e.Column, e.Err)
}

// Unwrap gives the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// Is ties the error to ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// formatError finds line and column of an offset.
func formatError(what string, b []byte, offset int64, err error) error {
	before := b[:min(max(offset, 0), int64(len(b)))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return &FormatError{What: what, Line: 1 + bytes.Count(before, []byte{'\n'}), Column: 1 + len(before) - start, Err: err}
}

// ReadFile reads the trace at path.
func ReadFile(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	t, err := Read(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return t, nil
}

// Read reads what Write has written. An error that wraps ErrFormat is a *FormatError. What Read accepts may still be wrong as a whole: see Check.
func Read(r io.Reader) (*Trace, error) {
	b, err := readAll(r)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	p := parser{b: b, dec: json.NewDecoder(bytes.NewReader(b)), threads: map[threadKey]string{}}
	if err := p.file(); err != nil {
		return nil, formatError("trace", b, cmp.Or(p.at, p.dec.InputOffset()), err)
	}
	return p.finish(), nil
}

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	return b, err
}

type threadKey struct{ process, thread int }

// parser reads a file token by token, so that it knows where it is.
type parser struct {
	b       []byte
	dec     *json.Decoder
	at      int64 // offset of what is wrong, 0: where dec is
	t       Trace
	headed  bool
	threads map[threadKey]string
}

func (p *parser) file() error {
	if err := p.delim('{'); err != nil {
		return err
	}
	for p.dec.More() {
		key, err := p.dec.Token()
		if err != nil {
			return err
		}
		switch key {
		case "otherData":
			err = p.header()
		case "traceEvents":
			err = p.events()
		default:
			var skipped json.RawMessage
			err = p.dec.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	if err := p.delim('}'); err != nil {
		return err
	}
	if !p.headed {
		return fmt.Errorf(`no "otherData" with format %q: was it written by --profile?`, formatName)
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the trace")
	}
	return nil
}

func (p *parser) delim(want json.Delim) error {
	tok, err := p.dec.Token()
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("%v, want %v", tok, want)
	}
	return nil
}

func (p *parser) header() error {
	var h header
	start := p.dec.InputOffset()
	if err := p.dec.Decode(&h); err != nil {
		return p.wrong(start, err)
	}
	p.at = start
	switch {
	case p.headed:
		return errors.New(`"otherData" is there twice`)
	case h.Format != formatName:
		return fmt.Errorf(`format %q in "otherData", want %q: was it written by --profile?`, h.Format, formatName)
	case h.Version != formatVersion:
		return fmt.Errorf("version %d, want %d", h.Version, formatVersion)
	}
	p.headed, p.t.Origin = true, h.Origin
	for _, ph := range h.Processes {
		if slices.ContainsFunc(p.t.Processes, func(o Process) bool { return o.ID == ph.ID }) {
			return fmt.Errorf("process %d is there twice", ph.ID)
		}
		p.t.Processes = append(p.t.Processes, Process{ID: ph.ID, Name: ph.Name, Origin: ph.Origin, Shift: time.Duration(ph.Shift), Lost: ph.Lost})
	}
	p.at = 0
	return nil
}

// wrong notes where a value is wrong: at an offset within what begins at start, as far as the error knows one.
func (p *parser) wrong(start int64, err error) error {
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		p.at = max(start, 1)
		return fmt.Errorf("%s, want %v at %q", typed.Value, typed.Type, typed.Field)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		p.at = max(syntax.Offset, 1)
	}
	return err
}

func (p *parser) events() error {
	if err := p.delim('['); err != nil {
		return err
	}
	for i := 0; p.dec.More(); i++ {
		start := p.dec.InputOffset()
		for int(start) < len(p.b) && strings.IndexByte(" \t\r\n,", p.b[start]) >= 0 {
			start++
		}
		var e fileEvent
		if err := p.dec.Decode(&e); err != nil {
			return fmt.Errorf("event %d: %w", i, p.wrong(start, err))
		}
		if err := p.event(&e); err != nil {
			p.at = start
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return p.delim(']')
}

// fileEvent is an event as it stands in a file. What may be missing is a pointer.
type fileEvent struct {
	Phase    string      `json:"ph"`
	Name     *string     `json:"name"`
	Category string      `json:"cat"`
	Process  *int        `json:"pid"`
	Thread   *int        `json:"tid"`
	Time     json.Number `json:"ts"`
	Duration json.Number `json:"dur"`
	Flow     uint64      `json:"id"`
	Args     struct {
		Name  string `json:"name"`
		Value *int64 `json:"value"`
		Step  *int64 `json:"step"`
		Bytes int64  `json:"bytes"`
		Peer  string `json:"peer"`
		Table string `json:"table"`
	} `json:"args"`
}

func (p *parser) event(f *fileEvent) error {
	if f.Name == nil || f.Process == nil || f.Thread == nil {
		return errors.New("name, pid and tid are needed")
	}
	if f.Phase == "M" {
		if *f.Name == "thread_name" {
			p.threads[threadKey{*f.Process, *f.Thread}] = f.Args.Name
		}
		return nil
	}
	switch f.Phase {
	case "X", "i", "C", "s", "f":
	default:
		return fmt.Errorf("phase %q, want one of X, i, C, s, f, M", f.Phase)
	}
	e := Event{
		Phase: Phase(f.Phase[0]), Category: f.Category, Name: *f.Name, Process: *f.Process, Thread: *f.Thread, Flow: f.Flow,
		Bytes: f.Args.Bytes, Step: NoStep, Peer: f.Args.Peer, Table: f.Args.Table,
	}
	if f.Args.Step != nil {
		e.Step = *f.Args.Step
	}
	var err error
	if e.Time, err = micros("ts", f.Time); err != nil {
		return err
	}
	switch e.Phase {
	case Complete:
		if e.Duration, err = micros("dur", f.Duration); err != nil {
			return err
		}
		if e.Time > math.MaxInt64-e.Duration {
			return fmt.Errorf("ts %s and dur %s are too large", f.Time, f.Duration)
		}
	case Counter:
		if f.Args.Value == nil {
			return errors.New("a sample without a value")
		}
		e.Value = *f.Args.Value
	case FlowStart, FlowEnd:
		if f.Flow == 0 {
			return errors.New("a flow without an id")
		}
	case Instant:
	}
	p.t.Events = append(p.t.Events, e)
	return nil
}

// micros reads a time in microseconds with at most three decimals, which is not negative.
func micros(what string, n json.Number) (time.Duration, error) {
	whole, part, _ := strings.Cut(n.String(), ".")
	us, err := strconv.ParseUint(whole, 10, 53)
	if err != nil || len(part) > 3 {
		return 0, fmt.Errorf("%s %q, want microseconds, 0 or more, with up to three decimals", what, n.String())
	}
	ns, err := strconv.ParseUint(part+"000"[len(part):], 10, 16)
	if err != nil || us > math.MaxInt64/1000-1 {
		return 0, fmt.Errorf("%s %q, want microseconds, 0 or more, with up to three decimals", what, n.String())
	}
	return time.Duration(us*1000 + ns), nil
}

// finish puts together what is in several places of the file.
func (p *parser) finish() *Trace {
	for k, name := range p.threads {
		i := slices.IndexFunc(p.t.Processes, func(o Process) bool { return o.ID == k.process })
		if i >= 0 {
			p.t.Processes[i].Threads = append(p.t.Processes[i].Threads, Thread{ID: k.thread, Name: name})
		}
	}
	for i := range p.t.Processes {
		slices.SortFunc(p.t.Processes[i].Threads, func(a, b Thread) int { return cmp.Compare(a.ID, b.ID) })
	}
	slices.SortFunc(p.t.Processes, func(a, b Process) int { return cmp.Compare(a.ID, b.ID) })
	p.t.Sort()
	return &p.t
}
