package pstest_test

import (
	"fmt"
	"strings"
	"testing"

	"hcclps/ps/layout"
	"hcclps/ps/pstest"
	"hcclps/ps/wire"
)

// Workers 0 and 1 push one step each, whose answers come late; workers 2 and 3
// read meanwhile, one after the other. Either may see either push, but not
// both in different orders.
func TestReadsMustBeLinearizable(t *testing.T) {
	for _, tc := range []struct {
		first, second float32 // what the reads see
		good          bool
	}{
		{0, 0, true},
		{-1, -1, true},
		{-1, -3, true},
		{-2, -3, true},
		{0, -2, true},
		{-1, -2, false}, // push 0 and not push 1, then the other way round
		{-3, -1, false},
	} {
		t.Run(fmt.Sprint(tc.first, tc.second), func(t *testing.T) {
			err := pstest.Judge(twoReads(t, tc.first, tc.second))
			if good := err == nil; good != tc.good {
				t.Errorf("judged %v, want good: %v", err, tc.good)
			}
			if err != nil && !strings.Contains(err.Error(), "linearizable") {
				t.Errorf("judged bad for another reason: %v", err)
			}
		})
	}
}

// twoReads is such a history: push 0 takes 1 from the row, push 1 takes 2.
func twoReads(t *testing.T, first, second float32) *pstest.History {
	t.Helper()
	l, err := layout.New(layout.Config{Cluster: "c", Members: []layout.Member{{ID: "i", Name: "n", Addr: "a"}}, Replicas: 1, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	const key = 7
	job := wire.JobStatus{Job: "job", Applied: 2}
	h := &pstest.History{
		Layout: l,
		Jobs: []pstest.Job{{Name: "job", Params: wire.JobParams{World: 4, Sync: wire.ASP, Parts: 1}, Tables: []wire.Table{{
			ID: 1, Name: "t", Dim: 1, Init: "constant", Optimizer: "sgd", Params: map[string]float64{"lr": 1},
		}}}},
		Rows: []pstest.Rows{{Job: "job", Table: 1, Rows: []wire.Row{{Key: key, Sightings: 2, Values: []float32{-3}}}}},
	}
	for rank := range uint32(4) {
		who := pstest.Who{Job: "job", Worker: fmt.Sprint("w", rank), Rank: rank}
		h.Opens = append(h.Opens, pstest.Open{Who: who, Call: 1, Return: 2})
		row := pstest.Gradient{Table: 1, Keys: []uint64{key}}
		st := wire.WorkerStatus{Worker: who.Worker, Rank: rank}
		switch rank {
		case 0, 1:
			st.Done = 1
			row.Values = []float32{float32(rank + 1)}
			h.Pushes = append(h.Pushes, pstest.Push{Who: who, Rows: 1, Call: 3, Return: 100, Outcome: pstest.Acked, Grads: []pstest.Gradient{row}})
		case 2:
			row.Values = []float32{first}
			h.Pulls = append(h.Pulls, pstest.Pull{Who: who, Fresh: true, Call: 10, Return: 11, Rows: []pstest.Gradient{row}})
		case 3:
			row.Values = []float32{second}
			h.Pulls = append(h.Pulls, pstest.Pull{Who: who, Fresh: true, Call: 20, Return: 21, Rows: []pstest.Gradient{row}})
		}
		job.Workers = append(job.Workers, st)
	}
	h.Servers = []wire.ServerStatus{{Name: "n", Groups: []wire.GroupStatus{{Group: 1, Jobs: []wire.JobStatus{job}}}}}
	return h
}
