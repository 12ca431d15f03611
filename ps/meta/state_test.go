package meta

import (
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
