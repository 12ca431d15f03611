package wire

import "fmt"

// Status is how a request ended.
type Status uint8

// Statuses. The comment says what a caller does next.
const (
	OK        Status = iota
	NotLeader        // ask Answer.Leader, or every replica
	Busy             // again after Answer.After milliseconds
	Late             // Hold: too late for this T; choose a larger one
	Pending          // a plan for this step is not in force yet, or step 0 waits for workers; again soon
	Fenced           // a newer incarnation exists: stop
	Unknown          // no such session, job or table here: open it first
	Gap              // a step before this one is missing: stop
	Past             // bsp: the shard is beyond this step
	Refused          // differing schema, bad gradient, bad request: stop
	NonFinite        // a gradient is NaN or infinite: stop
	Stopped          // a stop plan took effect before this step
	Lost             // the group has lost a majority of its logs
)

//nolint:gochecknoglobals // a constant table
var statusNames = [...]string{
	"ok", "not leader", "busy", "late", "pending", "fenced", "unknown session", "gap",
	"past", "refused", "non-finite gradient", "stopped", "LOST",
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Answer is the head of every reply.
type Answer struct {
	Status    Status
	Detail    string // for people: what, where, what to do
	Leader    string // the leader's server id, if known: NotLeader, and a follower's answer to a pull
	After     uint32 // Busy: milliseconds to wait
	Duplicate bool   // Push: this is the stored answer, nothing was touched
	Term      uint64 // applied position behind this answer
	Index     uint64
	Clock     uint64 // steps complete on this shard
	Done      uint64 // steps this worker has completed on this shard
	Cursor    []byte // Fence: data position after step Done-1
	Waited    uint32 // Push, Pull: microseconds of it that passed until other workers were there
	Cut       uint64 // of Checkpoint: the step before which this worker's state is kept; 0: not known yet
	// Checkpoint is one that waits for the steps before Cut, 0: there is none.
	Checkpoint uint64
}

// Reason is the status with the detail, if there is one: for errors.
func (a *Answer) Reason() string {
	if a.Detail == "" {
		return a.Status.String()
	}
	return fmt.Sprintf("%v: %s", a.Status, a.Detail)
}

func (a *Answer) fields(c *coder) {
	c.u8((*uint8)(&a.Status))
	c.str(&a.Detail)
	c.str(&a.Leader)
	c.u32(&a.After)
	c.bool(&a.Duplicate)
	c.u64(&a.Term)
	c.u64(&a.Index)
	c.u64(&a.Clock)
	c.u64(&a.Done)
	c.bytes(&a.Cursor)
	c.u32(&a.Waited)
	c.u64(&a.Cut)
	c.u64(&a.Checkpoint)
}

// AppendAnswer writes an answer's head.
func AppendAnswer(dst []byte, a Answer) []byte {
	c := coder{buf: append(dst, Version)}
	a.fields(&c)
	return c.buf
}

// DecodeAnswer reads one; Cursor is a copy.
func DecodeAnswer(head []byte) (Answer, error) {
	var a Answer
	if len(head) < 1 || head[0] != Version {
		return a, fmt.Errorf("%w: answer without version %d", ErrMalformed, Version)
	}
	c := coder{buf: head, off: 1, read: true}
	a.fields(&c)
	a.Cursor = append([]byte(nil), a.Cursor...)
	return a, c.end()
}
