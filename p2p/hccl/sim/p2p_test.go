package sim

import "testing"

func TestPingPong(t *testing.T) {
	t.Parallel()
	dir := simulator(t)
	world{exe: program(t, dir, "pingpong"), dir: dir, size: 2}.run(t)
}

func TestRulesOfSendAndRecv(t *testing.T) {
	t.Parallel()
	scenarios(t, "rules", []scenario{
		{name: "arguments", size: 2},
		{name: "questions", size: 2},
		{name: "rendezvous", size: 2},
		{name: "order", size: 2},
		{name: "first blocks", size: 2},
		{name: "first times out", size: 2, env: []string{quick}},
		{name: "both send first", size: 2, env: []string{quick}},
		{name: "first count differs", size: 2},
		{name: "first type differs", size: 2},
		{name: "versions differ", size: 2},
		{name: "buffers differ", size: 2},
		{name: "three ranks", size: 3},
		{name: "later count differs", size: 2, env: []string{quick, "HCCL_EXEC_TIMEOUT=100"}},
		{name: "bandwidth", size: 2, env: []string{"HCCL_SIM_BANDWIDTH=32M"}},
		{name: "bandwidth", size: 2, env: []string{"HCCL_SIM_LATENCY_US=40000"}},
	})
}

func TestMisuseIsCaught(t *testing.T) {
	t.Parallel()
	scenarios(t, "misuse", []scenario{
		{name: "two threads at once", size: 2, env: []string{"HCCL_SIM_ISSUE_MS=100"}},
		{name: "second thread", size: 2, args: []string{"0"}},
		{name: "second thread, strict", size: 2, env: []string{"HCCL_SIM_STRICT=1"}, args: []string{"4"}},
		{name: "two streams", size: 2},
		{name: "destroy frees builder", size: 2},
		{name: "destroy in use", size: 2, env: []string{"HCCL_SIM_ISSUE_MS=2000"}},
		{name: "destroy under stream", size: 2},
		{name: "destroy under stream, strict", size: 2, env: []string{"HCCL_SIM_STRICT=2"}},
		{name: "freed buffer", size: 2},
		{name: "abort", size: 2},
		{name: "failure mode", size: 2, env: []string{quick, "HCCL_EXEC_TIMEOUT=100"}},
		{name: "shared buffer", size: 2, env: []string{"HCCL_SIM_CANN=9.0"}},
	})
}
