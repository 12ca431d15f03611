package shard

import (
	"bytes"
	"encoding/json"
	"testing"

	"hcclps/ps/wire"
)

// savedHead is what a shard's part of a checkpoint has of a job with two workers and a table.
func savedHead(t testing.TB) []byte {
	t.Helper()
	s := NewState(StateConfig{})
	defer s.Close()
	params := wire.JobParams{World: 2, Parts: 1}
	index := uint64(0)
	apply := func(e wire.Entry) {
		index++
		if _, err := s.Apply(wire.AppendEntry(nil, e), index, 1); err != nil {
			t.Fatal(err)
		}
	}
	var who []wire.Contributor
	for rank, name := range []string{"a", "b"} {
		apply(wire.Entry{Message: &wire.Fence{Target: wire.Target{Group: 1, Job: "j", Worker: name, Incarnation: 1}, Params: params, Rank: uint32(rank), Owner: "host"}})
		who = append(who, wire.Contributor{Worker: name, Incarnation: 1, Rows: 1, Cursor: []byte{1}})
	}
	apply(wire.Entry{Message: &wire.Hold{Group: 1, Job: "j", Plan: wire.Plan{ID: 1, Kind: wire.PlanTable, Table: testTable(1, 2)}}})
	apply(wire.Entry{Message: &wire.Release{Group: 1, Job: "j", Plan: 1}})
	body := wire.AppendSection(nil, wire.Section{Table: 1, Dim: 2, Keys: []uint64{3}, Values: []float32{1, 2}})
	apply(wire.Entry{Steps: []wire.Item{{Job: "j", Divisor: 2, Rate: 1, Contributors: who, Payloads: [][]byte{body}}}})
	b, err := json.Marshal(s.headOf(s.jobs["j"]))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzMergeHeads: what checkpoints say of a job is refused or becomes a head that a state takes, and survives a snapshot.
func FuzzMergeHeads(f *testing.F) {
	head := savedHead(f)
	f.Add(head, head, uint8(0))
	f.Add(head, bytes.Replace(head, []byte(`"Clock":1`), []byte(`"Clock":2`), 1), uint8(3))
	f.Add([]byte(`{"version":1,"job":{"Name":"j","Workers":[null],"Tables":[null]}}`), head, uint8(1))
	f.Add([]byte(`{"version":1,"job":{"Name":"j","Workers":[null]}}`), []byte(`{"version":1,"job":{"Name":"j","Workers":[null]}}`), uint8(1))
	f.Add([]byte(`{}`), []byte(`null`), uint8(0))
	f.Fuzz(func(t *testing.T, a, b []byte, world uint8) {
		var names []string
		for i := range int(world % 5) {
			names = append(names, string(rune('a'+i)))
		}
		m, err := MergeHeads([][]byte{a, b}, "k", names)
		if err != nil {
			return
		}
		s := NewState(StateConfig{})
		e := wire.Entry{Message: &wire.Restore{Group: 1, Job: "k", Load: 1, Data: m.Head}}
		answers, err := s.Apply(wire.AppendEntry(nil, e), 1, 1)
		if err != nil || len(answers) != 1 {
			t.Fatalf("%v, %v", answers, err)
		}
		if answers[0].Status == wire.OK {
			s = reload(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzRestorePages: pages of a checkpoint are refused, or are in the table.
func FuzzRestorePages(f *testing.F) {
	m, err := MergeHeads([][]byte{savedHead(f)}, "j", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(1), []byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0})
	f.Add(uint32(1<<31|1), []byte{})
	f.Fuzz(func(t *testing.T, table uint32, data []byte) {
		s := NewState(StateConfig{})
		for i, r := range []*wire.Restore{
			{Piece: wire.RestoreHead, Data: m.Head}, {Piece: wire.RestorePages, Table: table, Data: data}, {Piece: wire.RestorePages, Table: table, Data: data}, {Piece: wire.RestoreEnd},
		} {
			r.Group, r.Job, r.Load = 1, "j", 9
			if _, err := s.Apply(wire.AppendEntry(nil, wire.Entry{Message: r}), uint64(i+1), 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
