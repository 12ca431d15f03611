package link

import (
	"fmt"
	"strings"
)

// maxAttempts bounds how many different attempts a RouteError keeps.
const maxAttempts = 32

// Attempt is one address and cause, with how often in a row or in turn it was seen.
type Attempt struct {
	Addr  string
	Cause error // of the last time
	Count int
}

// RouteError is why an operation over several replicas failed: its end and all that was tried before.
type RouteError struct {
	Op       string
	Attempts []Attempt // in order of their first time; those that differ in digits alone are counted as one
	More     int       // attempts left out since Attempts is full
	Err      error     // what ended it: the deadline, or the fault that stays
}

// Error lists every attempt: "op: end; tried s1:7001: not leader (x12), s2:7001: ...".
func (e *RouteError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v", e.Op, e.Err)
	for i, a := range e.Attempts {
		sep := ", "
		if i == 0 {
			sep = "; tried "
		}
		b.WriteString(sep)
		cause := a.Cause.Error()
		if !strings.Contains(cause, a.Addr) {
			b.WriteString(a.Addr + ": ")
		}
		b.WriteString(cause)
		if a.Count > 1 {
			fmt.Fprintf(&b, " (x%d)", a.Count)
		}
	}
	if e.More > 0 {
		fmt.Fprintf(&b, " and %d more attempts", e.More)
	}
	return b.String()
}

// Unwrap gives what ended the operation and the causes of the attempts.
func (e *RouteError) Unwrap() []error {
	errs := []error{e.Err}
	for _, a := range e.Attempts {
		errs = append(errs, a.Cause)
	}
	return errs
}

func (e *RouteError) add(addr string, cause error) {
	kind := withoutDigits(cause)
	for i, a := range e.Attempts {
		if a.Addr == addr && withoutDigits(a.Cause) == kind {
			e.Attempts[i].Count++
			e.Attempts[i].Cause = cause
			return
		}
	}
	if len(e.Attempts) == maxAttempts {
		e.More++
		return
	}
	e.Attempts = append(e.Attempts, Attempt{Addr: addr, Cause: cause, Count: 1})
}

// withoutDigits is what an error says, but for numbers: bytes in use, say, that are others each time.
func withoutDigits(err error) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}
