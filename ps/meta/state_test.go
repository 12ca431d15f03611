package meta

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hcclps/ps/wire"
)

var bsp2 = wire.JobParams{World: 2, Parts: 1, Seed: 7}

func apply1(t *testing.T, s *state, kind string, body any) result {
	t.Helper()
	b, err := encodeEntry(kind, body)
	if err != nil {
		t.Fatal(err)
	}
	return s.apply(b)
}

func open(worker string, rank uint32, p wire.JobParams) wire.OpenRequest {
	return wire.OpenRequest{Job: "j", Worker: worker, Rank: rank, Params: p, Owner: "host pid " + worker}
}

func mustOpen(t *testing.T, s *state, worker string, rank uint32, p wire.JobParams) wire.OpenReply {
	t.Helper()
	r := apply1(t, s, kindOpen, open(worker, rank, p))
	reply, ok := r.Reply.(wire.OpenReply)
	if r.Answer.Status != wire.OK || !ok {
		t.Fatalf("open %s: %v %s", worker, r.Answer.Status, r.Answer.Detail)
	}
	return reply
}

// land brings the plan in flight into force and ends its flight.
func land(t *testing.T, s *state, p wire.Plan) {
	t.Helper()
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: releasing})
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: done})
}

func fly(t *testing.T, s *state, p wire.Plan) wire.Plan {
	t.Helper()
	r := apply1(t, s, kindPlan, planEntry{Job: "j", Plan: p})
	got, ok := r.Reply.(wire.Plan)
	if r.Answer.Status != wire.OK || !ok || got.ID == 0 {
		t.Fatalf("plan did not take off: %+v", r)
	}
	return got
}

func TestOpenCountsIncarnations(t *testing.T) {
	s := newState()
	for want := uint64(1); want <= 3; want++ {
		got := mustOpen(t, s, "a", 0, bsp2)
		if got.Incarnation != want || got.Params != bsp2 || !strings.HasPrefix(got.Owner, "host pid a") {
			t.Errorf("opening %d: %+v", want, got)
		}
	}
}

func TestOpenRefusesAndShowsBothSides(t *testing.T) {
	other := bsp2
	other.World = 3
	ssp := bsp2
	ssp.Sync, ssp.Staleness = wire.SSP, 4
	for name, c := range map[string]struct {
		req  wire.OpenRequest
		want []string
	}{
		"other world":         {open("b", 1, other), []string{"world 2", "world 3"}},
		"other consistency":   {open("b", 1, ssp), []string{"bsp", "ssp:4"}},
		"rank of another":     {open("b", 0, bsp2), []string{`worker "a" (host pid a`, `worker "b" (host pid b)`, "rank 0"}},
		"another rank":        {open("a", 1, bsp2), []string{"rank 0", "rank 1"}},
		"rank over the world": {open("b", 2, bsp2), []string{"rank 2", "world of 2"}},
		"no name":             {open("", 1, bsp2), []string{"a name is UTF-8 of 1 to 255 bytes"}},
		"parts":               {open("b", 1, wire.JobParams{World: 2, Parts: 3}), []string{"parts 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			mustOpen(t, s, "a", 0, bsp2)
			before, _ := s.encode()
			r := apply1(t, s, kindOpen, c.req)
			if r.Answer.Status != wire.Refused {
				t.Fatalf("status %v, want refused", r.Answer.Status)
			}
			for _, want := range c.want {
				if !strings.Contains(r.Answer.Detail, want) {
					t.Errorf("detail %q does not show %q", r.Answer.Detail, want)
				}
			}
			if after, _ := s.encode(); string(after) != string(before) {
				t.Error("a refused opening changed the state")
			}
		})
	}
}

func TestSessionOfAGhost(t *testing.T) {
	s := newState()
	mustOpen(t, s, "a", 0, bsp2)
	mustOpen(t, s, "a", 0, bsp2)
	for inc, want := range map[uint64]wire.Status{1: wire.Fenced, 2: wire.OK, 3: wire.Unknown} {
		if r := apply1(t, s, kindFinish, wire.SessionRef{Job: "j", Worker: "a", Incarnation: inc}); r.Answer.Status != want {
			t.Errorf("incarnation %d: %v, want %v", inc, r.Answer.Status, want)
		}
	}
	if w := s.Jobs["j"].worker("a"); w.State != sessionFinished {
		t.Errorf("state %s, want finished", w.State)
	}
	mustOpen(t, s, "a", 0, bsp2)
	if w := s.Jobs["j"].worker("a"); w.State != sessionOpen {
		t.Errorf("state %s after opening again, want open", w.State)
	}
}

func TestTablesGetIDsInOrder(t *testing.T) {
	s := newState()
	mustOpen(t, s, "a", 0, bsp2)
	w := wire.Table{Name: "w", Dim: 8, Init: "zeros", Optimizer: "sgd", Params: map[string]float64{"lr": 0.1, "wd": 0}}
	p := fly(t, s, wire.Plan{Kind: wire.PlanTable, Table: w})
	if p.Table.ID != 1 || p.ID != 1 {
		t.Errorf("first table and plan have ids %d and %d, want 1 and 1", p.Table.ID, p.ID)
	}
	if r := apply1(t, s, kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanStop}}); r.Answer.Status != wire.Pending {
		t.Errorf("a second plan beside the first: %v, want pending", r.Answer.Status)
	}
	if len(s.Jobs["j"].Tables) != 0 {
		t.Error("the table exists before its plan is in force")
	}
	land(t, s, p)
	r := apply1(t, s, kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanTable, Table: w}})
	if got := r.Reply.(wire.Plan); got.ID != 0 || got.Table.ID != 1 || r.Answer.Status != wire.OK {
		t.Errorf("the same table again: %+v", r)
	}
	differs := w
	differs.Params, differs.Optimizer = map[string]float64{"lr": 0.2, "wd": 0}, "adam"
	r = apply1(t, s, kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanTable, Table: differs}})
	if r.Answer.Status != wire.Refused || !strings.Contains(r.Answer.Detail, "has optimizer sgd, params (lr=0.1, wd=0), and was asked for with optimizer adam, params (lr=0.2, wd=0)") ||
		strings.Contains(r.Answer.Detail, "zeros") {
		t.Errorf("a differing table: %v %s", r.Answer.Status, r.Answer.Detail)
	}
	v := wire.Table{Name: "v", Dim: 4}
	if p := fly(t, s, wire.Plan{Kind: wire.PlanTable, Table: v}); p.Table.ID != 2 {
		t.Errorf("second table has id %d, want 2", p.Table.ID)
	}
}

func TestDroppedPlanLeavesNoTrace(t *testing.T) {
	s := newState()
	mustOpen(t, s, "a", 0, bsp2)
	p := fly(t, s, wire.Plan{Kind: wire.PlanTable, Table: wire.Table{Name: "w", Dim: 1}})
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: dropping})
	if r := apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: releasing}); r.Answer.Status != wire.OK {
		t.Errorf("a late stage: %v", r.Answer.Status)
	}
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: done})
	if j := s.Jobs["j"]; j.Plan != nil || len(j.Tables) != 0 {
		t.Errorf("after the drop: plan %+v, tables %v", j.Plan, j.Tables)
	}
	if again := fly(t, s, wire.Plan{Kind: wire.PlanTable, Table: wire.Table{Name: "w", Dim: 1}}); again.ID != 2 || again.Table.ID != 1 {
		t.Errorf("tried again: plan %d, table %d; want a new plan and the same table id", again.ID, again.Table.ID)
	}
}

func TestExpelAndJoin(t *testing.T) {
	s := newState()
	mustOpen(t, s, "a", 0, bsp2)
	mustOpen(t, s, "b", 1, bsp2)
	p := fly(t, s, wire.Plan{Kind: wire.PlanExpel, Worker: "b", Incarnation: 1, Why: "lease"})
	if r := apply1(t, s, kindOpen, open("b", 1, bsp2)); r.Answer.Status != wire.Pending {
		t.Errorf("opening while being expelled: %v, want pending", r.Answer.Status)
	}
	land(t, s, p)
	if r := apply1(t, s, kindFinish, wire.SessionRef{Job: "j", Worker: "b", Incarnation: 1}); r.Answer.Status != wire.Unknown || !strings.Contains(r.Answer.Detail, "lease") {
		t.Errorf("request of an expelled worker: %v %s", r.Answer.Status, r.Answer.Detail)
	}
	got := mustOpen(t, s, "b", 1, bsp2)
	if w := s.Jobs["j"].worker("b"); w.State != sessionExpelled || got.Incarnation != 2 {
		t.Errorf("opened again: %+v", w)
	}
	stale := apply1(t, s, kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanExpel, Worker: "b", Incarnation: 1}})
	if stale.Reply.(wire.Plan).ID != 0 {
		t.Error("an expel plan of an old incarnation took off")
	}
	join := wire.Plan{Kind: wire.PlanJoin, Join: wire.Fence{Target: wire.Target{Job: "j", Worker: "b", Incarnation: 2}, Params: bsp2, Rank: 1}}
	land(t, s, fly(t, s, join))
	if w := s.Jobs["j"].worker("b"); w.State != sessionOpen {
		t.Errorf("after the join: %+v", w)
	}
}

func TestClaims(t *testing.T) {
	asp := wire.JobParams{World: 2, Sync: wire.ASP, Parts: 1}
	s := newState()
	mustOpen(t, s, "a", 0, asp)
	mustOpen(t, s, "b", 1, asp)
	claim := func(worker string, have, end uint64) wire.Claim {
		t.Helper()
		r := apply1(t, s, kindClaim, wire.ClaimRequest{SessionRef: wire.SessionRef{Job: "j", Worker: worker, Incarnation: 1}, Have: have, End: end})
		c, ok := r.Reply.(wire.Claim)
		if !ok {
			t.Fatalf("claim of %s: %v %s", worker, r.Answer.Status, r.Answer.Detail)
		}
		return c
	}
	want := func(got, want wire.Claim) {
		t.Helper()
		if got != want {
			t.Errorf("claim %+v, want %+v", got, want)
		}
	}
	want(claim("a", 0, 0), wire.Claim{Number: 1, From: 0, To: 16})
	want(claim("a", 0, 0), wire.Claim{Number: 1, From: 0, To: 16}) // the answer was lost
	want(claim("b", 0, 0), wire.Claim{Number: 2, From: 16, To: 32})
	want(claim("a", 1, 0), wire.Claim{Number: 3, From: 32, To: 48})
	// b leaves; a looked past the end first, then finds it at batch 20.
	land(t, s, fly(t, s, wire.Plan{Kind: wire.PlanExpel, Worker: "b", Incarnation: 1}))
	want(claim("a", 3, 32), wire.Claim{Number: 4, From: 16, To: 32}) // what b had not done
	want(claim("a", 4, 20), wire.Claim{Number: 5, Epoch: 1, From: 0, To: 16})
	want(claim("a", 5, 0), wire.Claim{Number: 6, Epoch: 1, From: 16, To: 32}) // the second epoch's end is not known
	r := apply1(t, s, kindClaim, wire.ClaimRequest{SessionRef: wire.SessionRef{Job: "j", Worker: "a", Incarnation: 1}, Have: 6, EndOf: 1 << 30, End: 5})
	if r.Answer.Status != wire.Refused {
		t.Errorf("end of an epoch nobody reached: %v, want refused", r.Answer.Status)
	}
}

func TestOnlyWhatWasNotPushedIsHandedOn(t *testing.T) {
	given := wire.Claim{Number: 1, From: 0, To: 16}
	for name, c := range map[string]struct {
		cursor []byte
		want   []wire.Claim
	}{
		"nothing pushed":        {nil, []wire.Claim{{From: 0, To: 16}}},
		"half":                  {wire.ClaimCursor{Claim: given, At: 8}.Append(nil), []wire.Claim{{From: 8, To: 16}}},
		"all":                   {wire.ClaimCursor{Claim: given, At: 16}.Append(nil), nil},
		"an earlier range":      {wire.ClaimCursor{Claim: wire.Claim{Number: 9, To: 16}, At: 16}.Append(nil), []wire.Claim{{From: 0, To: 16}}},
		"a cursor of something": {[]byte("else"), []wire.Claim{{From: 0, To: 16}}},
	} {
		var claims claims
		if got := claims.next("a", 0, 1); got != given {
			t.Fatalf("claim %+v", got)
		}
		claims.giveBack("a", c.cursor)
		if !slices.Equal(claims.Pool, c.want) || len(claims.Out) != 0 {
			t.Errorf("%s: pool %+v, want %+v", name, claims.Pool, c.want)
		}
	}
}

func TestNoClaimsUnderBSP(t *testing.T) {
	s := newState()
	mustOpen(t, s, "a", 0, bsp2)
	r := apply1(t, s, kindClaim, wire.ClaimRequest{SessionRef: wire.SessionRef{Job: "j", Worker: "a", Incarnation: 1}})
	if r.Answer.Status != wire.Refused {
		t.Errorf("claim under bsp: %v, want refused", r.Answer.Status)
	}
}

// FuzzApply feeds the state with entries made of the fuzzer's bytes: nothing may
// panic, equal entries must make equal states, and a state must survive its encoding.
func FuzzApply(f *testing.F) {
	for _, e := range []any{open("a", 0, bsp2), planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanStop}}, stageEntry{Job: "j", ID: 1, Stage: releasing}} {
		b, _ := json.Marshal(e)
		for _, kind := range []string{kindLayout, kindOpen, kindFinish, kindClaim, kindPlan, kindStage} {
			f.Add(kind, b, []byte{0, 1, 2, 3, 4, 5, 6, 7})
		}
	}
	f.Fuzz(func(t *testing.T, kind string, body, script []byte) {
		a, b := newState(), newState()
		raw, _ := json.Marshal(entry{Version: entryVersion, Kind: kind, Body: body})
		entries := [][]byte{body, raw}
		for _, op := range script {
			entries = append(entries, scripted(op))
		}
		entries = append(entries, raw)
		for i, e := range entries {
			ra, rb := a.apply(e), b.apply(e)
			if !reflect.DeepEqual(ra, rb) {
				t.Fatalf("entry %d: %+v and %+v", i, ra, rb)
			}
			head, err := a.encode()
			if err != nil {
				t.Fatal(err)
			}
			if b, err = decodeState(head); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A note is replaced by who knows the last one, and by nobody else.
func TestNotes(t *testing.T) {
	s := newState()
	for i, step := range []struct {
		instead uint64
		text    string
		want    wire.Note
	}{
		{wire.ReadNote, "", wire.Note{}},
		{0, "a:1", wire.Note{Number: 1, Text: "a:1"}},
		{0, "b:2", wire.Note{Number: 1, Text: "a:1"}},
		{7, "b:2", wire.Note{Number: 1, Text: "a:1"}},
		{1, "b:2", wire.Note{Number: 2, Text: "b:2"}},
		{1, "c:3", wire.Note{Number: 2, Text: "b:2"}},
		{wire.ReadNote, "c:3", wire.Note{Number: 2, Text: "b:2"}},
		{2, strings.Repeat("x", wire.MaxNote), wire.Note{Number: 3, Text: strings.Repeat("x", wire.MaxNote)}},
	} {
		r := apply1(t, s, kindNote, wire.NoteRequest{Job: "j", Instead: step.instead, Text: step.text})
		if got, ok := r.Reply.(wire.Note); !ok || got != step.want || r.Answer.Status != wire.OK {
			t.Errorf("step %d: %+v, want %+v", i, r, step.want)
		}
	}
	if r := apply1(t, s, kindNote, wire.NoteRequest{Job: "other", Instead: wire.ReadNote}); r.Reply != (wire.Note{}) {
		t.Errorf("the note of another job is %+v", r.Reply)
	}
	for _, bad := range []wire.NoteRequest{{Job: ""}, {Job: strings.Repeat("j", 300)}, {Job: "j", Instead: 3, Text: strings.Repeat("x", wire.MaxNote+1)}} {
		if r := apply1(t, s, kindNote, bad); r.Answer.Status != wire.Refused {
			t.Errorf("%.40v: %+v", bad, r)
		}
	}
	b, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeState(b)
	if err != nil || again.Notes["j"].Number != 3 {
		t.Errorf("notes after a snapshot: %+v, %v", again, err)
	}
}

// scripted is one of a small set of entries that meet each other.
func scripted(op byte) []byte {
	worker, rank := string('a'+rune(op>>3&1)), uint32(op>>3&1)
	ref := wire.SessionRef{Job: "j", Worker: worker, Incarnation: uint64(op >> 4 & 3)}
	params := bsp2
	params.Sync = wire.Sync(op >> 7)
	var kind string
	var body any
	switch op & 7 {
	case 0, 1:
		kind, body = kindOpen, open(worker, rank, params)
	case 2:
		kind, body = kindFinish, ref
	case 3:
		kind, body = kindClaim, wire.ClaimRequest{SessionRef: ref, Have: uint64(op >> 5), End: uint64(op >> 4)}
	case 4:
		kind, body = kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanTable, Table: wire.Table{Name: worker, Dim: uint32(op)}}}
	case 5:
		kind, body = kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanExpel, Worker: worker, Incarnation: ref.Incarnation}}
	case 6:
		kind, body = kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanJoin, Join: wire.Fence{Target: wire.Target{Worker: worker, Incarnation: ref.Incarnation}}}}
	default:
		kind, body = kindStage, stageEntry{Job: "j", ID: uint64(op >> 5), Stage: []stage{releasing, dropping, done, "x"}[op>>3&3]}
		switch op >> 5 {
		case 5:
			kind, body = kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanCheckpoint, T: uint64(op)}, Above: uint64(op)}
		case 6:
			kind, body = kindSave, saveEntry{ID: uint64(op >> 3 & 3), Stage: []saveStage{saveComplete, saveCommitted, saveAbandoned, "x"}[op>>3&3]}
		case 7:
			kind, body = kindRestoreJob, wire.RestoreRequest{Job: "j", Load: uint64(op>>4&1) + 1, Complete: op>>3&1 == 1, State: []byte(`{"version":1,"job":{"params":{"world":2,"parts":1}}}`)}
		}
	}
	b, _ := encodeEntry(kind, body)
	return b
}

func FuzzDecodeState(f *testing.F) {
	s := newState()
	b, _ := encodeEntry(kindOpen, open("a", 0, bsp2))
	s.apply(b)
	head, _ := s.encode()
	f.Add(head)
	f.Add([]byte(`{"version":1,"jobs":{"j":null}}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeState(b)
		if err != nil {
			return
		}
		for op := range 256 {
			s.apply(scripted(byte(op)))
		}
	})
}

// A checkpoint goes through its stages with its plan; there is one at a time, its number follows those there are.
func TestCheckpointsOneAtATime(t *testing.T) {
	s := newState()
	mustOpen(t, s, "a", 0, bsp2)
	plan := planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanCheckpoint, T: 4}, Above: 70}
	s.index = 12
	p := apply1(t, s, kindPlan, plan).Reply.(wire.Plan)
	if p.Checkpoint != 71 || s.Checkpoint.Stage != savePlanned {
		t.Errorf("planned %+v, %+v, want number 71", p, s.Checkpoint)
	}
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: dropping})
	if s.Checkpoint != nil {
		t.Errorf("a dropped plan leaves %+v", s.Checkpoint)
	}
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: done})

	s.index = 99
	p = apply1(t, s, kindPlan, plan).Reply.(wire.Plan)
	cuts := []wire.Cut{{Worker: "a", Step: 3}}
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: releasing, Cuts: cuts})
	if got := s.Jobs["j"].Plan.Plan.Cuts; p.Checkpoint != 99 || len(got) != 1 || got[0] != cuts[0] || s.Checkpoint.Stage != saveWriting {
		t.Errorf("number %d, cuts %v, %+v", p.Checkpoint, got, s.Checkpoint)
	}
	apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: done})
	if r := apply1(t, s, kindPlan, plan); r.Answer.Status != wire.Busy || !strings.Contains(r.Answer.Detail, "checkpoint 99") {
		t.Errorf("a second checkpoint: %+v", r.Answer)
	}
	for _, e := range []saveEntry{{ID: 98, Stage: saveAbandoned}, {ID: 99, Stage: saveCommitted}} {
		if apply1(t, s, kindSave, e); s.Checkpoint == nil {
			t.Errorf("%+v ended the checkpoint", e)
		}
	}
	apply1(t, s, kindSave, saveEntry{ID: 99, Stage: saveComplete, Step: 5, Manifest: []byte("{}")})
	head, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	if s, err = decodeState(head); err != nil || s.Checkpoint.Stage != saveComplete || string(s.Checkpoint.Manifest) != "{}" {
		t.Fatalf("after a snapshot: %+v, %v", s.Checkpoint, err)
	}
	apply1(t, s, kindSave, saveEntry{ID: 99, Stage: saveCommitted, Bytes: 7})
	if n := len(s.Checkpoints); n != 1 || s.Checkpoints[0].Step != 5 || s.Jobs["j"].Saved != 99 || s.Checkpoint != nil {
		t.Errorf("committed: %+v, saved %d", s.Checkpoints, s.Jobs["j"].Saved)
	}
}

// A job that is being restored can be opened by nobody; then it goes on, its sessions fenced off and waited for.
func TestRestoredJob(t *testing.T) {
	s := newState()
	mustOpen(t, s, "a", 0, bsp2)
	mustOpen(t, s, "b", 1, bsp2)
	apply1(t, s, kindFinish, wire.SessionRef{Job: "j", Worker: "b", Incarnation: 1})
	blob, err := encodeJob(s.Jobs["j"])
	if err != nil {
		t.Fatal(err)
	}
	begin := wire.RestoreRequest{Job: "j", Load: 5, Checkpoint: 9, Dir: "/kept", Step: 3, State: blob}
	if r := apply1(t, s, kindRestoreJob, begin); r.Answer.Status != wire.Refused || !strings.Contains(r.Answer.Detail, "--job") {
		t.Errorf("a restore onto a job that has begun: %+v", r.Answer)
	}

	s = newState()
	end := wire.RestoreRequest{Job: "j", Load: 5, Complete: true}
	if r := apply1(t, s, kindRestoreJob, end); r.Answer.Status != wire.Refused {
		t.Errorf("the end of a restore that has not begun: %+v", r.Answer)
	}
	for range 2 {
		apply1(t, s, kindRestoreJob, begin)
	}
	if r := apply1(t, s, kindOpen, open("a", 0, bsp2)); r.Answer.Status != wire.Pending || !strings.Contains(r.Answer.Detail, "/kept") {
		t.Errorf("opened in mid-restore: %+v", r.Answer)
	}
	other := begin
	other.Load, other.Checkpoint = 6, 8
	if r := apply1(t, s, kindRestoreJob, other); r.Answer.Status != wire.Refused || !strings.Contains(r.Answer.Detail, "/kept@9") {
		t.Errorf("another restore in the middle of one: %+v", r.Answer)
	}
	for range 2 {
		if r := apply1(t, s, kindRestoreJob, end); r.Answer.Status != wire.OK {
			t.Errorf("the end of a restore: %+v", r.Answer)
		}
	}
	if a, b := s.Jobs["j"].worker("a"), s.Jobs["j"].worker("b"); a.State != sessionRestored || a.Incarnation != 2 || b.State != sessionFinished {
		t.Errorf("restored %+v and %+v", a, b)
	}
	got := mustOpen(t, s, "a", 0, bsp2)
	if got.Incarnation != 3 || got.Restored == nil || *got.Restored != (wire.Restored{Checkpoint: 9, Step: 3, Dir: "/kept"}) {
		t.Errorf("opened: %+v", got)
	}
}

// A job that is nothing but a fork that was refused counts its plans on, and may still be restored: then it counts anew.
func TestRefusedForkOfANewJob(t *testing.T) {
	s := newState()
	for id := uint64(1); id <= 2; id++ {
		p := fly(t, s, wire.Plan{Kind: wire.PlanFork, Table: wire.Table{Name: "t", Dim: 1}, Fork: 7})
		if p.ID != id {
			t.Errorf("plan %d, want %d: shards remember the one before", p.ID, id)
		}
		if r := apply1(t, s, kindRestoreJob, wire.RestoreRequest{Job: "j", Load: 5, State: []byte(`{}`)}); r.Answer.Status != wire.Refused || s.Jobs["j"] == nil {
			t.Errorf("restore while a fork is on its way: %+v", r.Answer)
		}
		apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: dropping})
		apply1(t, s, kindStage, stageEntry{Job: "j", ID: p.ID, Stage: done})
		b, err := s.encode()
		if err == nil {
			s, err = decodeState(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := wire.RestoreRequest{Job: "j", Load: 5, State: []byte(`{"version":1,"job":{"params":{"world":2,"parts":1}}}`)}
	if r := apply1(t, s, kindRestoreJob, begin); r.Answer.Status != wire.OK {
		t.Errorf("restore: %+v", r.Answer)
	}
	if r := apply1(t, s, kindPlan, planEntry{Job: "j", Plan: wire.Plan{Kind: wire.PlanFork, Table: wire.Table{Name: "t", Dim: 1}, Fork: 8}}); r.Answer.Status != wire.Refused {
		t.Errorf("a fork into a job that is being restored: %+v", r.Answer)
	}
}

// A job that nobody has opened is checked as any other.
func TestStateWithABadJobIsRefused(t *testing.T) {
	for job, ok := range map[string]bool{
		`{"tables":[{"id":1,"name":"t","dim":1}],"last_plan":1}`:          true,
		`{"last_plan":1,"plan":{"stage":"holding","plan":{"id":1}}}`:      true,
		`{"tables":[{"id":2,"name":"t","dim":1}]}`:                        false,
		`{"tables":[{"id":1,"name":"","dim":1}]}`:                         false,
		`{"tables":[{"id":1,"name":"t","dim":0}]}`:                        false,
		`{"last_plan":2,"plan":{"stage":"holding","plan":{"id":1}}}`:      false,
		`{"last_plan":1,"plan":{"stage":"done","plan":{"id":1}}}`:         false,
		`{"workers":[{"name":"a"}]}`:                                      false,
		`{"params":{"world":1,"parts":1},"tables":[{"id":2,"name":"t"}]}`: false,
	} {
		if _, err := decodeState([]byte(`{"version":1,"jobs":{"j":` + job + `}}`)); (err == nil) != ok {
			t.Errorf("%s: %v", job, err)
		}
	}
}
