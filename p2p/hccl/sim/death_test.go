package sim

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestDeadPeer(t *testing.T) {
	t.Parallel()
	dir := simulator(t)
	exe := program(t, dir, "death")
	exec := "HCCL_EXEC_TIMEOUT=100"
	for _, c := range []struct {
		name, die string
		size      int
		env, args []string
	}{
		{name: "meet", die: "meet@1", size: 2, env: []string{quick}},
		{name: "create", die: "create@1", size: 2, env: []string{quick}},
		{name: "first", die: "first@1", size: 2, env: []string{quick}},
		{name: "later", die: "later@1:3", size: 2, env: []string{quick, exec}, args: []string{"507048", "900"}},
		{name: "later", die: "later@1:3", size: 2, env: []string{"HCCL_SIM_DEATH=fast"}, args: []string{"507048", "0"}},
		{
			name: "later", die: "later@1:3", size: 2,
			env: []string{quick, exec, "HCCL_SIM_CHIP=910A"}, args: []string{"107020", "600"},
		},
		{name: "rdma", die: "later@1:3", size: 2, env: []string{quick, "HCCL_SIM_LINK=rdma"}},
		{name: "collective", die: "later@1:2", size: 3, env: []string{quick, exec}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := world{exe: exe, dir: dir, size: c.size, env: append(c.env, "HCCL_SIM_DIE="+c.die), args: append([]string{c.name}, c.args...)}
			for rank, e := range w.start(t) {
				if rank == 1 && e.signal != syscall.SIGKILL {
					t.Errorf("rank 1 was to kill itself: %v", e)
				}
				if rank != 1 && e.code != 0 {
					t.Errorf("rank %d: %v", rank, e)
				}
			}
		})
	}
}

func TestTaskFault(t *testing.T) {
	t.Parallel()
	scenarios(t, "death", []scenario{
		{name: "task fails", size: 2, env: []string{"HCCL_SIM_TASK_FAIL=1:507053"}},
	})
}

// Nothing of a killed process is left: it had no names but in the abstract space, and those went with it.
func TestKilledProcessLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := simulator(t)
	w := world{exe: program(t, dir, "death"), dir: dir, size: 2, args: []string{"later", "507048", "0"}}
	host := "killed-" + strings.ReplaceAll(t.TempDir(), "/", "-")
	w.env = []string{"HCCL_SIM_DIE=later@1:3", "HCCL_SIM_DEATH=fast", "HCCL_SIM_HOST=" + host[len(host)-40:]}
	w.start(t)
	names, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Skipf("the names of sockets cannot be read: %v", err)
	}
	if strings.Contains(string(names), host[len(host)-40:]) {
		t.Error("a socket of a process that was killed is still there")
	}
}
