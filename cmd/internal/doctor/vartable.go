package doctor

// variable is one that HCCL reads. Its check says what is wrong with a value, "" for nothing.
type variable struct {
	name  string
	check func(value string) string
}

// hcclVariables are the variables of the HCCL user guide with the values it allows. Where chips differ the widest range is taken.
func hcclVariables() []variable {
	flag := oneOf("0", "1")
	truth := oneOf("TRUE", "FALSE")
	return []variable{
		{"HCCL_CONNECT_TIMEOUT", number(120, 7200, "seconds")},
		{"HCCL_EXEC_TIMEOUT", number(0, 1<<31-1, "seconds")},
		{"HCCL_BUFFSIZE", bufferSize},
		{"HCCL_ALGO", algorithm},
		{"HCCL_DETERMINISTIC", oneOf("false", "true", "strict")},
		{"HCCL_IF_IP", address},
		{"HCCL_SOCKET_IFNAME", filled},
		{"HCCL_SOCKET_FAMILY", oneOf("AF_INET", "AF_INET6")},
		{"HCCL_IF_BASE_PORT", number(1024, 65520, "the first of 32 ports")},
		{"HCCL_HOST_SOCKET_PORT_RANGE", portRange},
		{"HCCL_NPU_SOCKET_PORT_RANGE", portRange},
		{"HCCL_WHITELIST_DISABLE", flag},
		{"HCCL_WHITELIST_FILE", filled},
		{"HCCL_INTRA_PCIE_ENABLE", flag},
		{"HCCL_INTRA_ROCE_ENABLE", flag},
		{"HCCL_INTER_HCCS_DISABLE", truth},
		{"HCCL_RDMA_TC", multiple(4, 0, 255)},
		{"HCCL_RDMA_SL", number(0, 7, "the priority of PFC")},
		{"HCCL_RDMA_TIMEOUT", number(0, 31, "v stands for 4.096 us x 2^v")},
		{"HCCL_RDMA_RETRY_CNT", number(1, 7, "tries")},
		{"HCCL_RDMA_QPS_PER_CONNECTION", number(1, 32, "queue pairs; more than 8 do not help")},
		{"HCCL_MULTI_QP_THRESHOLD", number(1, 8192, "KiB")},
		{"HCCL_RDMA_QP_PORT_CONFIG_PATH", filled},
		{"HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT", truth},
		{"HCCL_OP_EXPANSION_MODE", oneOf("HOST", "HOST_TS", "AI_CPU", "AICPU_TS", "AICPU_CacheDisable", "AIV", "CCU_MS", "CCU_SCHED")},
		{"HCCL_OP_RETRY_ENABLE", like(`(L[0-2]:[01])(,L[0-2]:[01])*`, "L1:0,L2:1")},
		{"HCCL_OP_RETRY_PARAMS", like(`(MaxCnt|HoldTime|IntervalTime):\d+(,(MaxCnt|HoldTime|IntervalTime):\d+)*`, "MaxCnt:1,HoldTime:5000,IntervalTime:1000")},
		{"HCCL_DFS_CONFIG", like(`[a-z_]+:\w+(,[a-z_]+:\w+)*`, "connection_fault_detection_time:20,cluster_heartbeat:on")},
		{"HCCL_ENTRY_LOG_ENABLE", flag},
		{"HCCL_DIAGNOSE_ENABLE", flag},
		{"HCCL_DEBUG_CONFIG", like(`\^?\w+(,\w+)*`, "ALG,TASK,RESOURCE, without blanks")},
		{"HCCL_LOGIC_SUPERPOD_ID", like(`.{0,127}`, "at most 127 characters")},
		{"HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO", like(`0(\.\d+)?|1(\.0+)?`, "a number from 0 to 1")},
		{"HCOMM_DEBUG_CONFIG", like(`\^?\w+(,\w+)*`, "TASK,DATA_OP, without blanks")},
	}
}

// torchVariables are read by torch_npu, not by HCCL: without Python they have no effect.
func torchVariables() []string {
	return []string{"HCCL_ASYNC_ERROR_HANDLING", "HCCL_DESYNC_DEBUG", "HCCL_EVENT_TIMEOUT"}
}

// mistaken are names met in articles, which nothing reads, and what to use in their place.
func mistaken() map[string]string {
	const algo = `set HCCL_ALGO="allreduce=level0:NA;level1:H-D_R/allgather=level0:NA;level1:ring", with the operation in front of its algorithm`
	const road = "the road follows from the topology: only HCCL_INTRA_ROCE_ENABLE, HCCL_INTRA_PCIE_ENABLE (some Atlas boxes) and HCCL_INTER_HCCS_DISABLE (A3) change it"
	const compress = "HCCL compresses nothing: use the compression of this project (--compress)"
	return map[string]string{
		"HCCL_TIMEOUT":              "set HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT, both in seconds",
		"HCCL_LOG_LEVEL":            "set ASCEND_GLOBAL_LOG_LEVEL: 0 debug, 1 info, 2 warn, 3 error",
		"HCCL_DEBUG":                "set ASCEND_GLOBAL_LOG_LEVEL (0 debug ... 3 error) and HCCL_DEBUG_CONFIG",
		"HCCL_ALGO_ALLREDUCE":       algo,
		"HCCL_ALGO_ALLGATHER":       algo,
		"HCCL_ALGO_REDUCESCATTER":   algo,
		"HCCL_ALGO_RING":            algo,
		"HCCL_ALGO_MESH":            algo,
		"HCCL_ALGO_RHD":             algo,
		"HCCL_LINK_PRIORITY":        road,
		"HCCL_LINK_HCCS":            road,
		"HCCL_LINK_ROCE":            road,
		"HCCL_LINK_PCIE":            road,
		"HCCL_COMPRESS_FP16":        compress,
		"HCCL_GRADIENT_COMPRESSION": compress,
		"HCCL_FUSION_THRESHOLD":     "HCCL fuses nothing: gradients are bucketed by the program",
		"HCCL_STREAM_COUNT":         "HCCL makes no streams: the program does",
		"HCCL_ENABLE_ZERO_COPY":     "there is no such switch, and no zero copy for Send and Recv",
		"HCCL_MEM_DEFAULT":          "there is no such switch: memory is allocated by the program",
		"HCCL_RHD_SUBGROUP_SIZE":    "HCCL has no such choice: groups are made by the program",
		"HCCL_ASYNC":                "every operation of HCCL is asynchronous on its stream",
		"HCCL_BUFFER_SIZE":          "set HCCL_BUFFSIZE, in MB",
		"HCCL_ERROR_HANDLING":       "HCCL has no such choice: pairs are rebuilt by this project",
		"HCCL_SOCKET_PORT_RANGE":    "set HCCL_HOST_SOCKET_PORT_RANGE or HCCL_NPU_SOCKET_PORT_RANGE",
		"HCCL_RETRY_CNT":            "set HCCL_RDMA_RETRY_CNT",
		"HCCL_HEALTH_CHECK":         "HCCL has no health check: heartbeats of this project are one",
		"HCCL_PRIORITY_HCCS":        road,
		"HCCL_PRIORITY_ROCE":        road,
		"HCCL_WHITELIST_ENABLE":     "set HCCL_WHITELIST_DISABLE: 0 checks, 1 does not",
		"HCCL_DETERMINISTIC_ENABLE": "set HCCL_DETERMINISTIC: false, true or strict",
		"HCCL_PROFILING":            "use msprof, or --profile of this project",
		"HCCL_INTRA_HCCS_ENABLE":    road,
	}
}
