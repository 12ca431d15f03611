package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Admit says which keys of an embedding table get a row. A sighting of a key is a step with a gradient for it; pulls do not count. The
// gradient of a key that is not admitted is dropped, and pulls of it answer the initial row. The zero value admits every key.
type Admit struct {
	// Kind is empty, count, bloom or prob.
	Kind string `json:"kind,omitempty"`
	// Count is the sighting at which a key is admitted: of count up to 65,535, of bloom up to 255.
	Count uint32 `json:"count,omitempty"`
	// Bits of bloom: the table has 2^Bits counters of a byte, 16 to 36. A key that shares its four counters with others comes in too early,
	// never too late.
	Bits uint32 `json:"bits,omitempty"`
	// P of prob is the chance of every sighting, above 0 and at most 1.
	P float64 `json:"p,omitempty"`
}

// The kinds of Admit.
const (
	AdmitCount = "count" // exact, some 30 bytes for each key that waits
	AdmitBloom = "bloom" // a counting Bloom filter, of a fixed size
	AdmitProb  = "prob"  // by chance, without memory
)

// AdmitKinds are the kinds of Admit.
func AdmitKinds() []string { return []string{AdmitCount, AdmitBloom, AdmitProb} }

// EvictKinds are the kinds of rules of Evict, as ParseEvict reads them.
func EvictKinds() []string { return []string{"ttl", "lfu", "l2", "rows", "bytes"} }

const (
	// DefaultBloomBits is 2^24 counters: 16 MiB, enough for some millions of rare keys.
	DefaultBloomBits = 24
	minBloomBits     = 16
	maxBloomBits     = 36
	// MinRows is the least budget of rows: one a partition.
	MinRows = 1024
	maxAge  = 1 << 31
	// maxBudget is where counts of rows and of bytes end: whole numbers that a float64, and so every text of them, has exactly.
	maxBudget = 1 << 53
)

// Validate reports what is wrong.
func (a Admit) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("admission %s: "+format, append([]any{a}, args...)...)
	}
	want := Admit{Kind: a.Kind}
	switch a.Kind {
	case "":
	case AdmitCount, AdmitBloom:
		most := uint32(math.MaxUint16)
		if want.Count = a.Count; a.Kind == AdmitBloom {
			want.Bits, most = a.Bits, math.MaxUint8
			if a.Bits < minBloomBits || a.Bits > maxBloomBits {
				return bad("%d bits: want %d to %d", a.Bits, minBloomBits, maxBloomBits)
			}
		}
		if a.Count < 1 || a.Count > most {
			return bad("%d sightings: want 1 to %d", a.Count, most)
		}
	case AdmitProb:
		if want.P = a.P; !(a.P > 0 && a.P <= 1) {
			return bad("probability %v: want above 0 and at most 1", a.P)
		}
	default:
		return fmt.Errorf("admission %q is unknown: want count:N, bloom:N[,BITS] or prob:P", a.Kind)
	}
	if a != want {
		return bad("it has more than its kind takes")
	}
	return nil
}

// String is the form that ParseAdmit reads; empty for the zero value.
func (a Admit) String() string {
	switch a.Kind {
	case "":
		return ""
	case AdmitProb:
		return fmt.Sprintf("%s:%v", a.Kind, a.P)
	case AdmitBloom:
		return fmt.Sprintf("%s:%d,%d", a.Kind, a.Count, a.Bits)
	default:
		return fmt.Sprintf("%s:%d", a.Kind, a.Count)
	}
}

// ParseAdmit reads count:N, bloom:N, bloom:N,BITS or prob:P; all or nothing is the zero value.
func ParseAdmit(s string) (Admit, error) {
	if s == "" || s == "all" {
		return Admit{}, nil
	}
	kind, rest, _ := strings.Cut(s, ":")
	a := Admit{Kind: kind}
	var err error
	switch kind {
	case AdmitCount:
		a.Count, err = parse32(rest)
	case AdmitBloom:
		n, bits, given := strings.Cut(rest, ",")
		a.Bits = DefaultBloomBits
		if a.Count, err = parse32(n); given && err == nil {
			a.Bits, err = parse32(bits)
		}
	case AdmitProb:
		a.P, err = strconv.ParseFloat(rest, 64)
	}
	if err != nil {
		return Admit{}, fmt.Errorf("admission %q: want count:N, bloom:N[,BITS] or prob:P", s)
	}
	return a, a.Validate()
}

func parse32(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// Evict says which rows of an embedding table are given up, by any of its rules. A row that was evicted is the initial row again. The
// zero value keeps all rows.
type Evict struct { //nolint:recvcheck // String shows a copy, parseRule fills one in
	// Age evicts rows without a gradient in so many steps.
	Age uint64 `json:"age,omitempty"`
	// TTL evicts rows without a gradient for so long; from 1 s.
	TTL time.Duration `json:"ttl,omitempty"`
	// HalfLife evicts rows whose sightings, halved every so many steps, are all gone; and the rarest first where there are too many rows.
	HalfLife uint64 `json:"half_life,omitempty"`
	// Norm evicts rows whose weights have a lower L2 norm.
	Norm float64 `json:"norm,omitempty"`
	// Rows is the most rows that the table keeps over all shards, from MinRows: those over it go, after each step, by the longest without a
	// gradient, or with HalfLife by the fewest sightings. Each partition has an equal part of it. Up to 1/16 more go at once.
	Rows uint64 `json:"rows,omitempty"`
	// Bytes is Rows by their size in memory.
	Bytes uint64 `json:"bytes,omitempty"`
}

// Validate reports every fault.
func (e Evict) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("eviction "+format, args...)) }
	if e.Age > maxAge || e.HalfLife > maxAge {
		fault("ttl %d steps, half-life %d steps: want at most %d", e.Age, e.HalfLife, uint64(maxAge))
	}
	if e.TTL != 0 && e.TTL < time.Second {
		fault("ttl %v: want 1s or more", e.TTL)
	}
	if !(e.Norm >= 0) || math.IsInf(e.Norm, 0) {
		fault("l2 %v: want a finite number above 0", e.Norm)
	}
	if e.Rows != 0 && e.Rows < MinRows {
		fault("rows %d: want %d or more", e.Rows, MinRows)
	}
	if e.Rows > maxBudget || e.Bytes > maxBudget {
		fault("rows %d, bytes %d: want at most %d", e.Rows, e.Bytes, uint64(maxBudget))
	}
	return errors.Join(faults...)
}

// String lists the rules in the form that ParseEvict reads.
func (e Evict) String() string {
	var out []string
	add := func(given bool, format string, v any) {
		if given {
			out = append(out, fmt.Sprintf(format, v))
		}
	}
	add(e.Age > 0, "ttl:%dsteps", e.Age)
	add(e.TTL > 0, "ttl:%v", e.TTL)
	add(e.HalfLife > 0, "lfu:%d", e.HalfLife)
	add(e.Norm > 0, "l2:%v", e.Norm)
	add(e.Rows > 0, "rows:%d", e.Rows)
	add(e.Bytes > 0, "bytes:%d", e.Bytes)
	return strings.Join(out, ",")
}

// ParseEvict reads rules with commas between them: ttl:24h, ttl:1000steps, lfu:STEPS, l2:NORM, rows:N, bytes:N. Of each kind there is one.
func ParseEvict(s string) (Evict, error) {
	var e Evict
	if s == "" || s == "none" {
		return e, nil
	}
	for rule := range strings.SplitSeq(s, ",") {
		if !e.parseRule(rule) {
			return Evict{}, fmt.Errorf("eviction rule %q: want one each of ttl:DURATION, ttl:Nsteps, lfu:STEPS, l2:NORM, rows:N or bytes:N", rule)
		}
	}
	return e, e.Validate()
}

// parseRule takes one more rule. It is false for what is none, and for the second of a kind.
func (e *Evict) parseRule(rule string) bool {
	kind, value, _ := strings.Cut(rule, ":")
	steps, inSteps := strings.CutSuffix(value, "steps")
	count := func(to *uint64, s string) bool {
		n, err := parseCount(s)
		first := *to == 0
		*to = n
		return first && err == nil
	}
	switch {
	case kind == "ttl" && inSteps:
		return count(&e.Age, steps)
	case kind == "ttl":
		d, err := time.ParseDuration(value)
		first := e.TTL == 0
		e.TTL = d
		return first && err == nil && d != 0
	case kind == "lfu":
		return count(&e.HalfLife, value)
	case kind == "l2":
		norm, err := strconv.ParseFloat(value, 64)
		first := e.Norm == 0
		e.Norm = norm
		return first && err == nil && norm != 0
	case kind == "rows":
		return count(&e.Rows, value)
	case kind == "bytes":
		return count(&e.Bytes, value)
	}
	return false
}

// parseCount reads a whole number from 1, also as 1e6.
func parseCount(s string) (uint64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (f < 1 || f > maxBudget || f != math.Trunc(f)) {
		err = strconv.ErrRange
	}
	return uint64(f), err
}
