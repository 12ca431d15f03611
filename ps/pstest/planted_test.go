package pstest_test

import (
	"fmt"
	"testing"

	"hcclps/ps/pstest"
	"hcclps/ps/shard"
)

// Each planted bug is found, with seeds that are known to meet it.
func TestVerifierFindsPlantedBugs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bugs  shard.Bugs
		seeds []uint64
	}{
		{"dedupe off", shard.Bugs{DedupeOff: true}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		{"dedupe not in the snapshot", shard.Bugs{DedupeNotInSnapshot: true}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		{"incarnation not fenced", shard.Bugs{NoFence: true}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		{"parts bitmap ignored", shard.Bugs{NoPartsBitmap: true}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		{"vote with a lost log", shard.Bugs{LostLogVotes: true}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, seed := range tc.seeds {
				_, err := play(t, pstest.NewScenario(seed), pstest.Options{Bugs: tc.bugs})
				t.Logf("seed %d: %.600s", seed, fmt.Sprint(err))
			}
		})
	}
}
