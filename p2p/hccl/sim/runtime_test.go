package sim

import (
	"strings"
	"testing"
)

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
		{name: "noop", env: []string{"HCCL_SIM_NOOP=1"}},
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

// A simulator says so: once at the start, and once when it pretends to profile.
func TestItSaysWhatItIs(t *testing.T) {
	t.Parallel()
	dir := simulator(t)
	w := world{exe: program(t, dir, "runtime"), dir: dir, size: 1, args: []string{"profiler"}, env: []string{"HCCL_SIM_QUIET=0", "HCCL_SIM_CHIP=A3"}}
	said := w.run(t)[0].stderr
	for _, want := range []string{"simulator of CANN 8.1 on A3 (Ascend910_9382)", "profiling is simulated"} {
		if strings.Count(said, want) != 1 {
			t.Errorf("want %q once in:\n%s", want, said)
		}
	}
	w.env = nil
	if said := w.run(t)[0].stderr; strings.Contains(said, "CANN") {
		t.Errorf("said although it was to be quiet:\n%s", said)
	}
}
