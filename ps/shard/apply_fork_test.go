package shard

import (
	"encoding/json"
	"strings"
	"testing"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// forkPiece has a state apply a piece of a fork of job k.
func forkPiece(t testing.TB, s *State, load uint64, piece wire.RestorePiece, data []byte) wire.Answer {
	t.Helper()
	e := wire.Entry{Message: &wire.Restore{Group: 1, Job: "k", Load: load, Piece: piece, Data: data}}
	a, err := s.Apply(wire.AppendEntry(nil, e), s.index+1, 1)
	if err != nil || len(a) != 1 {
		t.Fatal(a, err)
	}
	return a[0]
}

func describedFork(t testing.TB) []byte {
	t.Helper()
	b, err := json.Marshal(wire.ForkedTable{Table: testTable(1, 2), Rule: wire.RuleState{Steps: 3}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A table on its way survives a snapshot; nobody reads it before its plan is in force, and no checkpoint has it.
func TestForkOnItsWay(t *testing.T) {
	t.Parallel()
	s := NewState(StateConfig{})
	defer func() { s.Close() }()
	if a := forkPiece(t, s, 9, wire.ForkPages, nil); a.Status != wire.Refused {
		t.Errorf("rows before their table: %+v", a)
	}
	for range 2 {
		if a := forkPiece(t, s, 9, wire.ForkTable, describedFork(t)); a.Status != wire.OK {
			t.Fatalf("%+v", a)
		}
	}
	rows := s.jobs["k"].Forks[0].Tab.Rows
	page := make([]byte, 2+rows.Spec().Stride())
	page[0] = 1
	page[2] = 5 // the key
	l := layout.Layout{}
	data := wire.AppendPage(nil, wire.Page{Partition: uint16(l.Partition(5)), Data: page})
	if a := forkPiece(t, s, 9, wire.ForkPages, data); a.Status != wire.OK {
		t.Fatalf("%+v", a)
	}
	apply := func(m wire.Message) wire.Answer {
		a, err := s.Apply(wire.AppendEntry(nil, wire.Entry{Message: m}), s.index+1, 1)
		if err != nil {
			t.Fatal(err)
		}
		return a[0]
	}
	plan := wire.Plan{ID: 1, Kind: wire.PlanFork, T: 7, Table: testTable(1, 2), Fork: 9}
	if a := apply(&wire.Hold{Group: 1, Job: "k", Plan: plan}); a.Status != wire.Refused {
		t.Errorf("a plan before the end of the rows: %+v", a)
	}
	s = reload(t, s)
	if a := forkPiece(t, s, 9, wire.ForkEnd, nil); a.Status != wire.OK {
		t.Fatalf("%+v", a)
	}
	s = reload(t, s)
	if h := s.headOf(s.jobs["k"]); len(h.tables()) != 0 || len(h.Job.Forks) != 0 {
		t.Error("a checkpoint would have it")
	}
	if a := apply(&wire.Hold{Group: 1, Job: "k", Plan: plan}); a.Status != wire.OK {
		t.Fatalf("%+v", a)
	}
	if a := apply(&wire.Release{Group: 1, Job: "k", Plan: 1}); a.Status != wire.OK {
		t.Fatalf("%+v", a)
	}
	s = reload(t, s)
	made := s.jobs["k"].table(1)
	if made == nil || made.Rows.Stats().Rows != 1 || made.Opt.Steps != 3 || made.Kept.Since != 7 || len(s.jobs["k"].Forks) != 0 {
		t.Fatalf("table %+v", made)
	}
	if a := forkPiece(t, s, 9, wire.ForkPages, data); !a.Duplicate || a.Detail != wire.RestoredWhole {
		t.Errorf("rows that come late: %+v", a)
	}
	if a := forkPiece(t, s, 10, wire.ForkTable, describedFork(t)); a.Status != wire.Refused {
		t.Errorf("another fork of that name: %+v", a)
	}
}

// What a plan is held for stays: another fork that would give it up is refused until the plan is over.
func TestForkThatIsHeld(t *testing.T) {
	t.Parallel()
	for _, drop := range []bool{false, true} {
		s := NewState(StateConfig{})
		apply := func(m wire.Message) wire.Answer {
			t.Helper()
			a, err := s.Apply(wire.AppendEntry(nil, wire.Entry{Message: m}), s.index+1, 1)
			if err != nil {
				t.Fatal(err)
			}
			return a[0]
		}
		forkPiece(t, s, 9, wire.ForkTable, describedFork(t))
		forkPiece(t, s, 9, wire.ForkEnd, nil)
		if a := apply(&wire.Hold{Group: 1, Job: "k", Plan: wire.Plan{ID: 1, Kind: wire.PlanFork, Table: testTable(1, 2), Fork: 9}}); a.Status != wire.OK {
			t.Fatalf("%+v", a)
		}
		s = reload(t, s)
		if a := forkPiece(t, s, 10, wire.ForkTable, describedFork(t)); a.Status != wire.Refused {
			t.Errorf("another fork while one is held: %+v", a)
		}
		if a := forkPiece(t, s, 9, wire.ForkTable, describedFork(t)); a.Status != wire.OK {
			t.Errorf("the fork that is held, once more: %+v", a)
		}
		if a := apply(&wire.Release{Group: 1, Job: "k", Plan: 1, Drop: drop}); a.Status != wire.OK || (s.jobs["k"].table(1) == nil) != drop {
			t.Errorf("released, dropped %v: %+v", drop, a)
		}
		if a := forkPiece(t, s, 10, wire.ForkTable, describedFork(t)); (a.Status == wire.OK) != drop {
			t.Errorf("another fork when the plan is over, dropped %v: %+v", drop, a)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A page of another shard is refused, and the shards are called as people know them.
func TestStrayPage(t *testing.T) {
	t.Parallel()
	g := &Group{cfg: Config{Group: 1, Layout: func() layout.Layout { return layout.Layout{Shards: make([][]string, 2)} }}}
	if err := g.strayPage([]wire.Page{{Partition: 0}}); err != nil {
		t.Error(err)
	}
	if err := g.strayPage([]wire.Page{{Partition: layout.Partitions - 1}}); err == nil || !strings.HasSuffix(err.Error(), " came to shard 0") {
		t.Error(err)
	}
}

// FuzzFork: pieces of a fork are refused or taken, and the state survives a snapshot.
func FuzzFork(f *testing.F) {
	f.Add(describedFork(f), []byte{})
	f.Add([]byte(`{"table":{"name":"x","dim":70000}}`), []byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0})
	f.Add([]byte(`null`), []byte{1})
	f.Fuzz(func(t *testing.T, described, pages []byte) {
		s := NewState(StateConfig{})
		forkPiece(t, s, 9, wire.ForkTable, described)
		forkPiece(t, s, 9, wire.ForkPages, pages)
		forkPiece(t, s, 9, wire.ForkEnd, nil)
		forkPiece(t, s, 10, wire.ForkTable, described)
		s = reload(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
