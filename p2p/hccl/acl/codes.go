package acl

// code is what is known of a return code.
type code struct {
	name      string
	action    Action
	exhausted bool
	check     string
}

// fault is what is known of a fault code in the library's messages.
type fault struct {
	action Action
	check  string
}

const (
	codeAgain             = 20
	codeRepeatInitialize  = 100002
	codeWaitTimeout       = 107019
	codeDeviceTaskAbort   = 107022
	codeStreamAbort       = 107023
	codeStreamSyncTimeout = 507046
	codeEventSyncTimeout  = 507047
)

const (
	memoryFull  = "device memory is used up: fewer pairs, a smaller communicator buffer, or a larger share of the device"
	peerGone    = "the peer died, is stuck, or issued another operator: see its log; the exec time-out bounds the wait"
	threadFault = "a call came from a thread that has not set this device: a fault of this program"
	deviceFault = "the device has a fault: npu-smi info -t health, then the logs under $HOME/ascend/log"
	portTaken   = "the host port of the root is taken: name another by HCCL_IF_BASE_PORT or HCCL_HOST_SOCKET_PORT_RANGE"
)

// hcclCodes are the HcclResults.
var hcclCodes = map[int32]code{ //nolint:gochecknoglobals // a constant table
	1:    {"HCCL_E_PARA", Leave, false, "an argument is wrong: a fault of this program, or a communicator name used twice"},
	2:    {"HCCL_E_PTR", Leave, false, "a pointer is null or not device memory: a fault of this program"},
	3:    {"HCCL_E_MEMORY", Rebuild, true, memoryFull},
	4:    {"HCCL_E_INTERNAL", Rebuild, false, "the first operators of the two sides differ, or the communicator was destroyed meanwhile"},
	5:    {"HCCL_E_NOT_SUPPORT", Leave, false, "this chip or this version of CANN cannot do it"},
	6:    {"HCCL_E_NOT_FOUND", Rebuild, false, ""},
	7:    {"HCCL_E_UNAVAIL", Rebuild, false, "a port is taken or a resource is gone: " + portTaken},
	8:    {"HCCL_E_SYSCALL", Rebuild, false, ""},
	9:    {"HCCL_E_TIMEOUT", Rebuild, false, "the peer did not come in time: see its log, the network between the devices (hccn_tool) and HCCL_CONNECT_TIMEOUT"},
	10:   {"HCCL_E_OPEN_FILE_FAILURE", Leave, false, ""},
	11:   {"HCCL_E_TCP_CONNECT", Rebuild, false, "no connection to the peer's host address: HCCL_IF_IP or HCCL_SOCKET_IFNAME; " + portTaken},
	12:   {"HCCL_E_ROCE_CONNECT", Rebuild, false, "no link between the devices: hccn_tool -i N -link -g and -net_health -g"},
	13:   {"HCCL_E_TCP_TRANSFER", Rebuild, false, ""},
	14:   {"HCCL_E_ROCE_TRANSFER", Rebuild, false, "hccn_tool -i N -link -g"},
	15:   {"HCCL_E_RUNTIME", Rebuild, false, "a call of the runtime failed: use logical device ids, see the log"},
	16:   {"HCCL_E_DRV", Leave, false, deviceFault},
	17:   {"HCCL_E_PROFILING", Rebuild, false, ""},
	18:   {"HCCL_E_CCE", Rebuild, false, ""},
	19:   {"HCCL_E_NETWORK", Rebuild, false, "the device's network: two processes on one device, or hccn_tool -i N -link -g"},
	20:   {"HCCL_E_AGAIN", Retry, false, ""},
	21:   {"HCCL_E_REMOTE", Rebuild, false, "RDMA gave up: the link flapped or the peer exited"},
	22:   {"HCCL_E_SUSPENDING", Rebuild, false, ""},
	23:   {"HCCL_E_OPRETRY_FAIL", Rebuild, false, ""},
	24:   {"HCCL_E_OOM", Rebuild, true, memoryFull},
	1041: {"HCCL_E_IN_STATUS", Rebuild, false, ""},
}

// aclCodes are the aclErrors worth a name.
var aclCodes = map[int32]code{ //nolint:gochecknoglobals // a constant table
	100000:                {"INVALID_PARAM", Leave, false, "a fault of this program"},
	100001:                {"UNINITIALIZE", Leave, false, "aclInit was not called"},
	codeRepeatInitialize:  {"REPEAT_INITIALIZE", Retry, false, ""},
	107000:                {"RT_PARAM_INVALID", Leave, false, "a fault of this program"},
	107001:                {"RT_INVALID_DEVICEID", Leave, false, "no such device: npu-smi info, ASCEND_RT_VISIBLE_DEVICES"},
	107002:                {"RT_CONTEXT_NULL", Leave, false, threadFault},
	107003:                {"RT_STREAM_CONTEXT", Leave, false, threadFault},
	codeWaitTimeout:       {"RT_WAIT_TIMEOUT", Retry, false, ""},
	107020:                {"RT_TASK_TIMEOUT", Rebuild, false, peerGone},
	codeDeviceTaskAbort:   {"RT_DEVICE_TASK_ABORT", Rebuild, false, ""},
	codeStreamAbort:       {"RT_STREAM_ABORT", Rebuild, false, ""},
	200000:                {"BAD_ALLOC", Rebuild, true, memoryFull},
	200002:                {"INVALID_DEVICE", Leave, false, "no such device: npu-smi info, ASCEND_RT_VISIBLE_DEVICES"},
	207000:                {"RT_FEATURE_NOT_SUPPORT", Leave, false, "this chip cannot do it"},
	207001:                {"RT_MEMORY_ALLOCATION", Rebuild, true, memoryFull},
	207007:                {"RT_NO_EVENT_RESOURCE", Rebuild, true, "too many events: fewer pairs"},
	207008:                {"RT_NO_STREAM_RESOURCE", Rebuild, true, "too many streams: fewer pairs"},
	207009:                {"RT_NO_NOTIFY_RESOURCE", Rebuild, true, "too many notifies: fewer pairs"},
	207018:                {"RT_DEVICE_OOM", Rebuild, true, memoryFull},
	507010:                {"RT_LOST_HEARTBEAT", Leave, false, deviceFault},
	507011:                {"RT_MODEL_EXECUTE", Rebuild, false, ""},
	507013:                {"RT_SYS_DMA", Leave, false, deviceFault},
	507015:                {"RT_AICORE_EXCEPTION", Leave, false, deviceFault},
	507017:                {"RT_AICPU_TIMEOUT", Rebuild, false, peerGone},
	507018:                {"RT_AICPU_EXCEPTION", Rebuild, false, peerGone},
	codeStreamSyncTimeout: {"RT_STREAM_SYNC_TIMEOUT", Retry, false, ""},
	codeEventSyncTimeout:  {"RT_EVENT_SYNC_TIMEOUT", Retry, false, ""},
	507048:                {"RT_FFTS_PLUS_TIMEOUT", Rebuild, false, peerGone},
	507049:                {"RT_FFTS_PLUS_EXCEPTION", Rebuild, false, "a copy on the device failed: memory freed too early, or the peer exited"},
	507053:                {"RT_DEVICE_MEM_ERROR", Leave, false, deviceFault},
	507054:                {"RT_HBM_MULTI_BIT_ECC_ERROR", Leave, false, deviceFault},
	507056:                {"RT_LINK_ERROR", Rebuild, false, "hccn_tool -i N -link -g"},
	507057:                {"RT_SUSPECT_REMOTE_ERROR", Rebuild, false, peerGone},
	507899:                {"RT_DRV_INTERNAL_ERROR", Leave, false, deviceFault},
	507901:                {"RT_SOCKET_CLOSE", Leave, false, deviceFault},
	507904:                {"RT_COMM_OP_RETRY_FAIL", Rebuild, false, peerGone},
}

// faults are the fault codes. They say more than the return code that comes with them.
var faults = map[string]fault{ //nolint:gochecknoglobals // a constant table
	"EI0001": {Leave, "an HCCL_ variable has a value out of range, or names a network interface that is not there"},
	"EI0002": {Rebuild, peerGone},
	"EI0003": {Leave, "an argument is wrong: a fault of this program"},
	"EI0004": {Leave, "the rank table is missing or wrong"},
	"EI0005": {Rebuild, "the first operators of the two sides differ in type, count, buffer size or name: use the same settings on both"},
	"EI0006": {Rebuild, "the peer was not in its first operator in time: see its log, the devices' network (hccn_tool), the same TLS switch and HCCL_CONNECT_TIMEOUT on both"},
	"EI0007": {Rebuild, memoryFull},
	"EI0008": {Leave, "the two sides run different versions of CANN"},
	"EI0009": {Rebuild, "the devices' network is down (hccn_tool -i N -link -g), or both ranks are on one device"},
	"EI0010": {Leave, "these devices have no direct path: HCCL_INTRA_ROCE_ENABLE=1 with HCCL_INTRA_PCIE_ENABLE=0"},
	"EI0011": {Rebuild, memoryFull},
	"EI0012": {Rebuild, "a copy on the device failed: memory freed too early, a communicator destroyed with work queued, or the peer exited"},
	"EI0013": {Rebuild, "RDMA gave up: the link flapped or the peer exited; hccn_tool -i N -link -g"},
	"EI0014": {Leave, "the rank table's device_ip is not the address of the device: hccn_tool -i N -ip -g"},
	"EI0015": {Rebuild, "not all ranks came: set HCCL_IF_IP or HCCL_SOCKET_IFNAME to the node's address, see HCCL_WHITELIST_DISABLE"},
	"EI0016": {Leave, "the TLS switch differs between devices: hccn_tool -i N -tls -g"},
	"EI0017": {Leave, "the rank table lacks an item"},
	"EI0018": {Rebuild, "the link flapped or the peer exited"},
	"EI0019": {Rebuild, portTaken},
	"EI0020": {Leave, "another process uses this device: one process a device, or HCCL_NPU_SOCKET_PORT_RANGE=auto on all ranks"},
	"EJ0003": {Rebuild, portTaken},
	"EJ0004": {Leave, "the rank table's device_ip is not the address of the device: hccn_tool -i N -ip -g"},
}
