package pstest_test

import (
	"testing"

	"hcclps/ps/pstest"
	"hcclps/ps/shard"
)

// Each planted bug is found within a few scenarios that are known to meet it
// (TestVerifier plays the same without bugs).
func TestVerifierFindsPlantedBugs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bugs  shard.Bugs
		seeds []uint64
	}{
		{"dedupe off", shard.Bugs{DedupeOff: true}, []uint64{8, 10, 11}},
		{"dedupe missing from the snapshot", shard.Bugs{DedupeNotInSnapshot: true}, []uint64{4, 6, 8, 13}},
		{"incarnation not fenced", shard.Bugs{NoFence: true}, []uint64{8, 10, 11, 2}},
		{"parts bitmap ignored", shard.Bugs{NoPartsBitmap: true}, []uint64{2, 8, 11, 23}},
		{"vote with a lost log", shard.Bugs{LostLogVotes: true}, []uint64{4, 6, 10, 17}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, seed := range tc.seeds {
				if _, err := play(t, pstest.NewScenario(seed), pstest.Options{Bugs: tc.bugs}); err != nil {
					t.Logf("found: %.300s", err.Error())
					return
				}
			}
			t.Errorf("not found with seeds %v", tc.seeds)
		})
	}
}
