package sim

import "testing"

func TestChips(t *testing.T) {
	t.Parallel()
	old := "HCCL_SIM_CHIP=910A"
	scenarios(t, "chips", []scenario{
		{name: "310P", size: 2, env: []string{"HCCL_SIM_CHIP=310P"}},
		{name: "910A", size: 2, env: []string{old, quick, "HCCL_EXEC_TIMEOUT=200"}},
		{name: "cluster", size: 2, env: []string{old}},
		{name: "three", size: 3, env: []string{old}},
		{name: "A3", size: 2, env: []string{"HCCL_SIM_CHIP=A3", "HCCL_SIM_CANN=9.0"}, args: []string{"1"}},
	})
	for _, c := range [][]string{{"0", "3", "0"}, {"4", "7", "0"}, {"3", "4", "1"}} {
		scenarios(t, "chips", []scenario{{name: "pair", size: 2, env: []string{old}, args: c}})
	}
	scenarios(t, "chips", []scenario{{name: "A3", size: 2, args: []string{"0"}}})
	for chip, want := range map[string][]string{
		"910A": {"Ascend910A", "8"}, "910B": {"Ascend910B3", "8"}, "A3": {"Ascend910_9382", "16"}, "310P": {"Ascend310P3", "4"},
	} {
		scenarios(t, "chips", []scenario{{name: "soc", env: []string{"HCCL_SIM_CHIP=" + chip}, args: want}})
	}
}
