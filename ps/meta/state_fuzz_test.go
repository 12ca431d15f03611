package meta

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"hcclps/ps/wire"
)

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
			if !reflect.DeepEqual(ra.Answer, rb.Answer) || !reflect.DeepEqual(ra.Reply, rb.Reply) || fmt.Sprint(ra.Fault) != fmt.Sprint(rb.Fault) {
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
