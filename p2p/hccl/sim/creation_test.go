package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"hcclps/p2p/p2ptest"
)

func TestCreation(t *testing.T) {
	t.Parallel()
	port := basePort(t)
	base := "HCCL_IF_BASE_PORT=" + port
	scenarios(t, "creation", []scenario{
		{name: "config"},
		{name: "missing rank", size: 2, env: []string{"HCCL_SIM_SECOND_MS=30"}},
		{name: "root gone", size: 2, env: []string{quick}},
		{name: "ports", env: []string{base}, args: []string{port}},
		{name: "two at once", env: []string{"HCCL_SIM_CREATE_MS=2000"}},
		{name: "npu taken", size: 2, env: []string{"HCCL_SIM_HOST=test-" + port}},
		{name: "same device", size: 2},
		{name: "sub", size: 3},
		{name: "budget", size: 2, env: []string{"HCCL_SIM_HBM=40M"}, args: []string{"3"}},
	})
	again := basePort(t)
	first, err := strconv.Atoi(basePort(t))
	if err != nil {
		t.Fatal(err)
	}
	scenarios(t, "creation", []scenario{
		{name: "ports are freed", env: []string{"HCCL_IF_BASE_PORT=" + again}, args: []string{again}},
		{name: "port range", env: []string{fmt.Sprintf("HCCL_HOST_SOCKET_PORT_RANGE=%d,%d-%d", first, first+2, first+2)}},
		{name: "sub", size: 3, env: []string{"HCCL_HOST_SOCKET_PORT_RANGE=auto"}},
		{name: "budget", size: 2, env: []string{"HCCL_SIM_HBM=40M", "HCCL_SIM_CANN=9.0"}, args: []string{"24"}},
	})
}

// basePort finds a port that is free, and so most likely are those after it.
func basePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(p2ptest.FreeAddr(t).Port)
}

func TestCapabilityByVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"8.1": "5", "8.5": "11", "9.0": "12"} {
		scenarios(t, "creation", []scenario{
			{name: "capability", env: []string{"HCCL_SIM_CANN=" + version}, args: []string{want}},
		})
	}
}

func TestEnvironmentIsChecked(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"HCCL_CONNECT_TIMEOUT":   "119",
		"HCCL_EXEC_TIMEOUT":      "-1",
		"HCCL_BUFFSIZE":          "0",
		"HCCL_IF_BASE_PORT":      "80",
		"HCCL_IF_IP":             "localhost",
		"HCCL_RDMA_TC":           "131",
		"HCCL_RDMA_TIMEOUT":      "21",
		"HCCL_RDMA_RETRY_CNT":    "8",
		"HCCL_DETERMINISTIC":     "yes",
		"HCCL_DFS_CONFIG":        "connection_fault_detection_time:5",
		"HCCL_WHITELIST_DISABLE": "2",
		"HCCL_WHITELIST_FILE":    "",
		"HCCL_ALGO":              "level1:rings",
		"HCCL_SOCKET_FAMILY":     "AF_UNIX",
		"HCCL_OP_EXPANSION_MODE": "NPU",
		"HCCL_INTRA_ROCE_ENABLE": "0",

		"HCCL_HOST_SOCKET_PORT_RANGE": "60000-50000",
	} {
		env := []string{name + "=" + value}
		if name == "HCCL_WHITELIST_FILE" {
			env = append(env, "HCCL_WHITELIST_DISABLE=0")
		}
		scenarios(t, "creation", []scenario{{name: "bad environment", env: env, args: []string{name}}})
	}
}

func TestRankTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/ranktable.json")
	if err != nil {
		t.Fatal(err)
	}
	// Equal tables are one job: another run of this test beside this one must not be.
	table := filepath.Join(t.TempDir(), "table.json")
	if err := os.WriteFile(table, bytes.ReplaceAll(text, []byte("node-0"), []byte("node-"+basePort(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	scenarios(t, "creation", []scenario{
		{name: "rank table", size: 2, args: []string{table}},
		{name: "damaged tables", args: []string{table}},
		{name: "sub", size: 3, env: []string{"HCCL_ALGO=allreduce=level0:NA;level1:H-D_R/allgather=level1:NHR", "HCCL_OP_EXPANSION_MODE=HOST"}},
	})
	for says, text := range map[string]string{
		"not JSON":      `{"version": "1.0", "server_list": [`,
		"version":       `{"version": "3.0"}`,
		"initializing":  `{"version": "1.0", "status": "initializing"}`,
		"EI0017":        `{"version": "1.0", "status": "completed", "server_list": []}`,
		"but not rank":  `{"version": "1.0", "server_list": [{"device": [{"device_id": "0", "rank_id": "1"}]}]}`,
		"appears twice": `{"version": "1.0", "d": [{"device_id": 0, "rank_id": 0}, {"device_id": 1, "rank_id": 0}]}`,
	} {
		bad := filepath.Join(t.TempDir(), "table.json")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		scenarios(t, "creation", []scenario{{name: "bad rank table", args: []string{bad, says}}})
	}
}
