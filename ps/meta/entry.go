package meta

import (
	"encoding/json"
	"fmt"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// entryVersion is the version in every entry of the meta log.
const entryVersion = 1

// Kinds of entries.
const (
	kindLayout = "layout" // layout.Layout: the cluster was formed like this
	kindOpen   = "open"   // wire.OpenRequest
	kindFinish = "finish" // wire.SessionRef: the worker has closed after its last step
	kindClaim  = "claim"  // wire.ClaimRequest
	kindPlan   = "plan"   // planEntry: a plan takes off
	kindNote   = "note"   // wire.NoteRequest
	kindStage  = "stage"  // stageEntry: it is in force, dropped, or done

	kindSave       = "save"       // saveEntry: how far the checkpoint under way is
	kindRestoreJob = "restorejob" // wire.RestoreRequest
)

// entry is one entry of the log: JSON.
type entry struct {
	Version int             `json:"v"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body"`
}

// planEntry proposes a plan; its id, and a table's, are given by apply.
type planEntry struct {
	Job  string    `json:"job"`
	Plan wire.Plan `json:"plan"`
	// Above is the newest checkpoint of the folder, which one that is planned follows.
	Above uint64 `json:"above,omitempty"`
}

// stageEntry moves the plan in flight on: to releasing, to dropping, or out
// ("done"). Of a worker that is expelled it says how far its data was pushed.
type stageEntry struct {
	Job    string `json:"job"`
	ID     uint64 `json:"id"`
	Stage  stage  `json:"stage"`
	Cursor []byte `json:"cursor,omitempty"`
	// Cuts are those of a checkpoint (ssp, asp).
	Cuts []wire.Cut `json:"cuts,omitempty"`
}

// done is the stage that ends a flight.
const done stage = "done"

func encodeEntry(kind string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode %s entry: %w", kind, err)
	}
	b, err = json.Marshal(entry{Version: entryVersion, Kind: kind, Body: b})
	if err != nil {
		return nil, fmt.Errorf("encode %s entry: %w", kind, err)
	}
	return b, nil
}

// result is what an entry answers: Reply is a structure for the body, or nil.
type result struct {
	Answer wire.Answer
	Reply  any
	Fault  error // there is no answer: the state must not be used any more
}

// apply changes the state by one entry. It is pure and total: a bad entry has
// the same answer on every replica and no effect. One of another version is a
// fault of the program that reads it.
func (s *state) apply(b []byte) result {
	var e entry
	if err := json.Unmarshal(b, &e); err != nil {
		return result{Answer: refuse(wire.Refused, "entry of the meta log: %v", err)}
	}
	if e.Version != entryVersion {
		return result{Fault: fmt.Errorf("version %d, this program reads %d: %w", e.Version, entryVersion, wire.ErrEntryVersion)}
	}
	switch e.Kind {
	case kindLayout:
		return apply(e, s.form)
	case kindOpen:
		return apply(e, s.open)
	case kindFinish:
		return apply(e, s.finish)
	case kindClaim:
		return apply(e, s.claim)
	case kindPlan:
		return apply(e, s.plan)
	case kindStage:
		return apply(e, s.stage)
	case kindNote:
		return apply(e, s.note)
	case kindSave:
		return apply(e, s.save)
	case kindRestoreJob:
		return apply(e, s.restoreJob)
	default:
		return result{Answer: refuse(wire.Refused, "entry of the meta log of unknown kind %q", e.Kind)}
	}
}

func apply[T any](e entry, do func(T) result) result {
	var body T
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return result{Answer: refuse(wire.Refused, "%s entry of the meta log: %v", e.Kind, err)}
	}
	return do(body)
}

// form records the layout; a later epoch replaces it.
func (s *state) form(l layout.Layout) result {
	if err := l.Validate(); err != nil {
		return result{Answer: refuse(wire.Refused, "%v", err)}
	}
	if l.Epoch > s.Layout.Epoch {
		s.Layout = l
	}
	return result{}
}
