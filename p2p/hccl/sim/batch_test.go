package sim

import "testing"

func TestBatchesAndGroups(t *testing.T) {
	t.Parallel()
	scenarios(t, "batch", []scenario{
		{name: "all pairs", size: 4},
		{name: "refused", size: 2},
		{name: "group p2p", size: 2},
		{name: "group devices"},
		{name: "init all"},
	})
}
