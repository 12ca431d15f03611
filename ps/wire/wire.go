// Package wire holds what workers and servers say to each other: requests,
// answers, and the sections of keys and rows behind them. Everything is little
// endian; every decoder checks every length and never panics.
//
// A request is a head (one of the messages of this package, at most 32 KiB)
// and a body (sections of keys or gradients of any size). The head starts
// with Version and the Kind. An answer is an Answer as head, and a body.
//
// Messages to a shard are coded field by field (Append, Decode). Messages to
// the meta group and to a server are small and rare: they travel as JSON
// behind the same two bytes (Control).
//
// The bytes are a promise to other versions: a golden file pins them, and a
// receiver refuses another version or kind. What is decoded aliases the message
// where the comments say so, and float32 and uint64 are then read in place. The
// package starts nothing; its functions may be called concurrently.
package wire

import (
	"encoding/json"
	"fmt"
)

// Version is the first byte of every head. A receiver refuses another one.
const Version = 2

// Kind is the second byte of a head.
type Kind uint8

// Requests to a shard, answered by the leader of its group (pulls by any
// replica that is far enough).
const (
	KindPush    Kind = 1 // gradients of one part of one step: Push
	KindPull    Kind = 2 // keys to weights: Pull
	KindFence   Kind = 3 // a new incarnation of a worker at a shard: Fence
	KindFinish  Kind = 4 // no steps will follow: Finish
	KindHold    Kind = 5 // a plan: Hold
	KindRelease Kind = 6 // a held plan is in force, or dropped: Release
	KindProbe   Kind = 7 // where a job is on this shard: Probe
	KindScan    Kind = 8 // rows in key order: Scan
	KindPut     Kind = 9 // rows as they are, before the first step: Put

	KindRule  Kind = 10 // what a table's optimizer remembers: Rule
	KindSweep Kind = 11 // logged only: rows outlive their time: Sweep
	KindFind  Kind = 12 // one row: Find

	KindCheckpoint Kind = 13 // how far this shard's part of a checkpoint is, or its end: Checkpoint
	KindRestore    Kind = 14 // a piece of a job as a checkpoint has it: Restore
)

// Requests to the meta group, answered by its leader.
const (
	KindOpen  Kind = 32 // open a session: OpenRequest
	KindRenew Kind = 33 // renew its lease: RenewRequest
	KindClose Kind = 34 // close it: CloseRequest
	KindTable Kind = 35 // create a table: TableRequest
	KindClaim Kind = 36 // claim a range of batches: ClaimRequest
	KindPlan  Kind = 37 // change something at one step: PlanRequest
	KindNote  Kind = 38 // read or replace the note of a job: NoteRequest

	KindCheckpoints Kind = 39 // the checkpoint under way, and the last ones: CheckpointsRequest
	KindUpload      Kind = 40 // what a worker wants to find again in a checkpoint: UploadRequest
	KindResume      Kind = 41 // what the job was restored with: ResumeRequest
	KindRestoreJob  Kind = 42 // a job is being restored: RestoreRequest
)

// Requests to a server.
const (
	KindIdentify Kind = 64 // who are you: no fields
	KindForm     Kind = 65 // the cluster is founded like this: layout.Layout
	KindStatus   Kind = 66 // what do you see: StatusRequest
	KindLayout   Kind = 67 // the layout, for a worker that has addresses only
)

// Message is a request to a shard.
type Message interface {
	kind() Kind
	fields(c *coder)
}

// Append writes a request's head.
func Append(dst []byte, m Message) []byte {
	c := coder{buf: append(dst, Version, byte(m.kind()))}
	m.fields(&c)
	return c.buf
}

// Peek reads the kind of a head.
func Peek(head []byte) (Kind, error) {
	if len(head) < 2 {
		return 0, fmt.Errorf("%w: head of %d bytes", ErrMalformed, len(head))
	}
	if head[0] != Version {
		return 0, fmt.Errorf("%w: version %d, this program speaks %d", ErrMalformed, head[0], Version)
	}
	return Kind(head[1]), nil
}

// Decode reads a request to a shard. Byte slices in it alias head.
func Decode(head []byte) (Message, error) {
	k, err := Peek(head)
	if err != nil {
		return nil, err
	}
	var m Message
	switch k {
	case KindPush:
		m = &Push{}
	case KindPull:
		m = &Pull{}
	case KindFence:
		m = &Fence{}
	case KindFinish:
		m = &Finish{}
	case KindHold:
		m = &Hold{}
	case KindRelease:
		m = &Release{}
	case KindProbe:
		m = &Probe{}
	case KindScan:
		m = &Scan{}
	case KindPut:
		m = &Put{}
	case KindRule:
		m = &Rule{}
	case KindSweep:
		m = &Sweep{}
	case KindFind:
		m = &Find{}
	case KindCheckpoint:
		m = &Checkpoint{}
	case KindRestore:
		m = &Restore{}
	default:
		return nil, fmt.Errorf("%w: kind %d is no request to a shard", ErrMalformed, k)
	}
	c := coder{buf: head, off: 2, read: true}
	m.fields(&c)
	return m, c.end()
}

// Control writes the head of a request to the meta group or to a server.
func Control(k Kind, fields any) ([]byte, error) {
	b, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode request %d: %w", k, err)
	}
	return append([]byte{Version, byte(k)}, b...), nil
}

// DecodeControl reads the fields behind such a head.
func DecodeControl(head []byte, fields any) error {
	if _, err := Peek(head); err != nil {
		return err
	}
	if err := json.Unmarshal(head[2:], fields); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}
