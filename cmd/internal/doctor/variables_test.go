package doctor

import (
	"strings"
	"testing"
)

func TestValuesOfVariables(t *testing.T) {
	for _, c := range []struct{ set, says string }{ // says "": fine
		{"HCCL_CONNECT_TIMEOUT=120", ""},
		{"HCCL_CONNECT_TIMEOUT=119", "120 to 7200"},
		{"HCCL_CONNECT_TIMEOUT=2m", "120 to 7200"},
		{"HCCL_EXEC_TIMEOUT=0", ""},
		{"HCCL_BUFFSIZE=4096", ""},
		{"HCCL_BUFFSIZE=8192", "unit is MB"},
		{"HCCL_BUFFSIZE=67108864", "write 64"},
		{"HCCL_BUFFSIZE=200MB", "number of MB"},
		{"HCCL_ALGO=level0:NA;level1:H-D_R", ""},
		{"HCCL_ALGO=allreduce=level0:NA;level1:H-D_R/allgather=level0:NA;level1:NHR;level2:ring", ""},
		{"HCCL_ALGO=ring", "want level0:NA"},
		{"HCCL_ALGO=level0:mesh;level1:ring", "chosen by the hardware"},
		{"HCCL_ALGO=level0:NA;level1:tree", `"tree" is no algorithm`},
		{"HCCL_ALGO=gather=level0:NA;level1:ring", `"gather" is no operation`},
		{"HCCL_DETERMINISTIC=strict", ""},
		{"HCCL_DETERMINISTIC=1", "strict"},
		{"HCCL_IF_IP=eth0", "IP address"},
		{"HCCL_SOCKET_FAMILY=AF_INET6", ""},
		{"HCCL_SOCKET_FAMILY=ipv6", "AF_INET6"},
		{"HCCL_IF_BASE_PORT=70000", "65520"},
		{"HCCL_HOST_SOCKET_PORT_RANGE=60000-60050,60100", ""},
		{"HCCL_HOST_SOCKET_PORT_RANGE=auto", ""},
		{"HCCL_HOST_SOCKET_PORT_RANGE=60050-60000", "60000-60050"},
		{"HCCL_RDMA_TC=132", ""},
		{"HCCL_RDMA_TC=133", "multiple of 4"},
		{"HCCL_RDMA_TIMEOUT=32", "0 to 31"},
		{"HCCL_OP_EXPANSION_MODE=AIV", ""},
		{"HCCL_OP_EXPANSION_MODE=FAST", "AIV"},
		{"HCCL_OP_RETRY_ENABLE=L1:0,L2:1", ""},
		{"HCCL_OP_RETRY_ENABLE=true", "L1:0,L2:1"},
		{"HCCL_OP_RETRY_PARAMS=MaxCnt:3,HoldTime:5000,IntervalTime:500", ""},
		{"HCCL_DFS_CONFIG=connection_fault_detection_time:0,task_exception:on", ""},
		{"HCCL_DFS_CONFIG=on", "connection_fault_detection_time:20"},
		{"HCCL_DEBUG_CONFIG=^task", ""},
		{"HCCL_DEBUG_CONFIG=ALG, TASK", "without blanks"},
		{"HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO=0.5", ""},
		{"HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO=2", "0 to 1"},
	} {
		m := healthy()
		m.env = []string{c.set}
		if c.says == "" {
			m.examine(t, Options{}).want(t, "hccl variables", OK, c.set)
		} else {
			m.examine(t, Options{}).want(t, "hccl variables", Warn, c.set, c.says)
		}
		if m.withCANN(); c.says != "" { // now somebody reads it
			m.examine(t, Options{}).want(t, "hccl variables", Fail, c.set, c.says)
		}
	}
}

func TestNamesNobodyReads(t *testing.T) {
	for name, says := range map[string]string{
		"HCCL_TIMEOUT":             "HCCL_EXEC_TIMEOUT, both in seconds",
		"HCCL_LOG_LEVEL":           "ASCEND_GLOBAL_LOG_LEVEL",
		"HCCL_ALGO_ALLREDUCE":      "HCCL_ALGO=",
		"HCCL_FUSION_THRESHOLD":    "HCCL fuses nothing",
		"HCCL_CONECT_TIMEOUT":      "HCCL_CONNECT_TIMEOUT",
		"HCCL_BUFFER_SIZE":         "HCCL_BUFFSIZE, in MB",
		"HCCL_SOCKET_IF_NAME":      "HCCL_SOCKET_IFNAME",
		"HCCL_RDMA_TRAFFIC_CLASS":  "HCCL_",
		"HCCL_INTRA_ROCE_ENABLED":  "HCCL_INTRA_ROCE_ENABLE",
		"HCCL_WHITE_LIST_DISABLE":  "HCCL_WHITELIST_DISABLE",
		"HCOMM_DEBUG":              "HCOMM_DEBUG_CONFIG",
		"HCCL_ENABLE_ZERO_COPY":    "no zero copy",
		"HCCL_LINK_PRIORITY":       "topology",
		"HCCL_OP_EXPANSION_MODE_X": "HCCL_OP_EXPANSION_MODE",
	} {
		m := healthy()
		m.env = []string{name + "=1"}
		m.examine(t, Options{}).want(t, "hccl variables", Warn, name+" is not read by HCCL", says)
	}
	m := healthy()
	m.env = []string{"HCCL_ASYNC_ERROR_HANDLING=1", "NCCL_DEBUG=INFO", "PATH=/bin"}
	r := m.examine(t, Options{})
	r.want(t, "hccl variables", OK, "torch_npu")
	if n := len(r.about("hccl variables")); n != 1 {
		t.Errorf("%d findings about one variable: %+v", n, r.about("hccl variables"))
	}
}

// What is said to be mistaken must not be a name that HCCL reads.
func TestTablesAgree(t *testing.T) {
	wrong := mistaken()
	for _, v := range hcclVariables() {
		if _, ok := wrong[v.name]; ok {
			t.Errorf("%s is read by HCCL and called mistaken", v.name)
		}
		if v.check == nil || !strings.HasPrefix(v.name, "HC") {
			t.Errorf("%s: incomplete", v.name)
		}
	}
}

func TestVariablesThatContradict(t *testing.T) {
	for _, c := range []struct {
		env  []string
		says string // "": nothing
	}{
		{[]string{"HCCL_INTRA_PCIE_ENABLE=1", "HCCL_INTRA_ROCE_ENABLE=1"}, "exclude each other"},
		{[]string{"HCCL_INTRA_PCIE_ENABLE=0"}, "exclude each other"},
		{[]string{"HCCL_INTRA_PCIE_ENABLE=0", "HCCL_INTRA_ROCE_ENABLE=1"}, ""},
		{[]string{"HCCL_INTRA_ROCE_ENABLE=1"}, ""},
		{[]string{"HCCL_IF_IP=10.0.0.5", "HCCL_SOCKET_IFNAME=eth"}, "unset one"},
		{[]string{"HCCL_IF_BASE_PORT=50000", "HCCL_HOST_SOCKET_PORT_RANGE=auto"}, "unset HCCL_IF_BASE_PORT"},
		{[]string{"RANK_TABLE_FILE=/t", "CM_CHIEF_IP=10.0.0.5"}, "unset one"},
	} {
		m := healthy()
		m.env = c.env
		r := m.examine(t, Options{})
		if c.says != "" {
			r.want(t, "hccl variables", Warn, c.says)
		} else if r.count(Warn) > 0 {
			t.Errorf("%q: %+v", c.env, r.about("hccl variables"))
		}
	}
}

func TestOwnVariables(t *testing.T) {
	m := healthy()
	m.env = []string{"HCCLPS_CLUSTR=x", "HCCLPS_CLUSTER=y"}
	r := m.examine(t, Options{Variables: []string{"HCCLPS_CLUSTER", "HCCLPS_JOB"}})
	r.want(t, "own variables", Warn, "HCCLPS_CLUSTR", "HCCLPS_CLUSTER")
	if n := len(r.about("own variables")); n != 1 {
		t.Errorf("%d findings, want 1", n)
	}
}
