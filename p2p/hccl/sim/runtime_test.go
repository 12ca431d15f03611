package sim

import "testing"

func TestRuntime(t *testing.T) {
	t.Parallel()
	scenarios(t, "runtime", []scenario{
		{name: "initialising"},
		{name: "contexts"},
		{name: "events"},
		{name: "aborting"},
		{name: "limits"},
		{name: "callbacks"},
		{name: "profiler"},
		{name: "injected", env: []string{"HCCL_SIM_FAIL=aclrtMalloc:2:207018,HcclGetRootInfo:*:11"}},
		{name: "visible", env: []string{"ASCEND_RT_VISIBLE_DEVICES=4,5"}},
	})
}

func TestMemory(t *testing.T) {
	t.Parallel()
	scenarios(t, "memory", []scenario{
		{name: "memory", env: []string{"HCCL_SIM_HBM=64M"}},
		{name: "host access"},
		{name: "copies"},
		{name: "virtual memory"},
	})
}
