package acl

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Action is what to do after a failure.
type Action uint8

const (
	// Rebuild means that the communicator is lost: destroy it and make another.
	Rebuild Action = iota
	// Retry means that the same call may succeed later: nothing is broken.
	Retry
	// Leave means that the device or this program is at fault: do not use it again without a repair.
	Leave
)

// String is the name in logs.
func (a Action) String() string { return [...]string{"rebuild", "retry", "leave"}[a%3] }

// Error is a failed call of the runtime or of HCCL.
type Error struct {
	Call    string // the C function
	HCCL    bool   // Code is an HcclResult, else an aclError
	Code    int32
	Name    string // of the code, without its prefix
	EI      string // the fault code in the library's message, such as EI0006; "" if none
	Message string // what aclGetRecentErrMsg said, perhaps nothing
}

func newError(s Symbol, hccl bool, code int32, message string) *Error {
	e := &Error{Call: s.String(), HCCL: hccl, Code: code, Message: strings.TrimSpace(message)}
	e.EI = faultCode(e.Message)
	e.Name = codeName(hccl, code)
	return e
}

// Error says what failed, the library's words and what to check.
func (e *Error) Error() string {
	var b strings.Builder
	kind := "aclError"
	if e.HCCL {
		kind = "HcclResult"
	}
	fmt.Fprintf(&b, "call %s: %s %d (%s)", e.Call, kind, e.Code, e.Name)
	if e.EI != "" {
		fmt.Fprintf(&b, ", %s", e.EI)
	}
	if advice := e.Check(); advice != "" {
		fmt.Fprintf(&b, ": %s", advice)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, " [%s]", shorten(e.Message))
	}
	return b.String()
}

// maxMessage bounds what an error's text repeats of the library's message, which can be pages long.
const maxMessage = 400

func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return s
}

// Check is what a person should look at, "" if nothing is known.
func (e *Error) Check() string {
	if f, ok := faults[e.EI]; ok {
		return f.check
	}
	return e.code().check
}

// Action is what to do about it.
func (e *Error) Action() Action {
	if f, ok := faults[e.EI]; ok {
		return f.action
	}
	return e.code().action
}

// ActionOf is what to do about err: Rebuild unless there is an *Error in it that says otherwise.
func ActionOf(err error) Action {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Action()
	}
	return Rebuild
}

func (e *Error) code() code {
	if e.HCCL {
		return hcclCodes[e.Code]
	}
	return aclCodes[e.Code]
}

// IsWaitTimeout says whether err only means that a wait of ours was over before the work was: it is still queued.
func IsWaitTimeout(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && !e.HCCL &&
		(e.Code == codeStreamSyncTimeout || e.Code == codeEventSyncTimeout || e.Code == codeWaitTimeout)
}

// IsAgain says whether err is HCCL's request to try the call again.
func IsAgain(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.HCCL && e.Code == codeAgain
}

// IsNoMemory says whether err means that memory, streams, events or notifies are used up.
func IsNoMemory(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.code().exhausted
}

var faultPattern = regexp.MustCompile(`\bE[IJEL][0-9]{4}\b`)

// faultCode finds the fault code in a message of the library, the HCCL ones first.
func faultCode(message string) string {
	all := faultPattern.FindAllString(message, -1)
	for _, c := range all {
		if c[1] == 'I' {
			return c
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return ""
}

func codeName(hccl bool, n int32) string {
	table := aclCodes
	if hccl {
		table = hcclCodes
	}
	if c, ok := table[n]; ok {
		return c.name
	}
	return "unknown code"
}
