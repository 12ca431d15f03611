package meta

import (
	"strings"
	"testing"

	"hcclps/ps/wire"
)

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
