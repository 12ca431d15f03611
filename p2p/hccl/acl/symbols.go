package acl

// Symbol names a C function of the libraries.
type Symbol uint8

// The functions that are bound. Those before lastRequired must be there, of the others a library may lack some.
const (
	aclInit Symbol = iota
	aclrtGetVersion
	aclGetRecentErrMsg
	aclrtGetSocName
	aclrtGetDeviceCount
	aclrtSetDevice
	aclrtResetDevice
	aclrtMalloc
	aclrtFree
	aclrtMallocHost
	aclrtFreeHost
	aclrtMemcpy
	aclrtMemcpyAsync
	aclrtGetMemInfo
	aclrtCreateStream
	aclrtDestroyStream
	aclrtSynchronizeStream
	aclrtStreamWaitEvent
	aclrtDestroyEvent
	aclrtRecordEvent
	aclrtEventElapsedTime
	hcclGetRootInfo
	hcclCommInitRootInfo
	hcclCommDestroy
	hcclSend
	hcclRecv
	aclrtQueryEventStatus
	lastRequired

	hcclAllReduce
	hcclBroadcast
	hcclAllGather
	hcclReduceScatter
	aclrtPointerGetAttributes
	aclrtStreamQuery
	aclrtSynchronizeStreamWithTimeout
	aclrtDestroyStreamForce
	aclrtStreamAbort
	aclrtCreateEventWithFlag
	aclrtCreateEventExWithFlag
	aclrtSynchronizeEventWithTimeout
	hcclCommInitRootInfoConfig
	hcclGetCommConfigCapability
	hcclGetCommAsyncError
	hcclBatchSendRecv
	hcclReduce
	hcclAlltoAll
	hcclScatter
	hcclBarrier
	hcclSimVersion
	symbolCount
)

// library says where a symbol lives.
type library uint8

const (
	runtimeLib library = iota // libascendcl.so, or libacl_rt.so
	hcclLib                   // libhccl.so, or libhcomm.so
)

var symbolNames = [symbolCount]string{ //nolint:gochecknoglobals // a constant table
	aclInit: "aclInit", aclrtGetVersion: "aclrtGetVersion", aclGetRecentErrMsg: "aclGetRecentErrMsg",
	aclrtGetSocName: "aclrtGetSocName", aclrtGetDeviceCount: "aclrtGetDeviceCount",
	aclrtSetDevice: "aclrtSetDevice", aclrtResetDevice: "aclrtResetDevice",
	aclrtMalloc: "aclrtMalloc", aclrtFree: "aclrtFree", aclrtMallocHost: "aclrtMallocHost", aclrtFreeHost: "aclrtFreeHost",
	aclrtMemcpy: "aclrtMemcpy", aclrtMemcpyAsync: "aclrtMemcpyAsync", aclrtGetMemInfo: "aclrtGetMemInfo",
	aclrtCreateStream: "aclrtCreateStream", aclrtDestroyStream: "aclrtDestroyStream",
	aclrtSynchronizeStream: "aclrtSynchronizeStream", aclrtStreamWaitEvent: "aclrtStreamWaitEvent",
	aclrtDestroyEvent: "aclrtDestroyEvent", aclrtRecordEvent: "aclrtRecordEvent",
	aclrtEventElapsedTime: "aclrtEventElapsedTime",
	hcclGetRootInfo:       "HcclGetRootInfo", hcclCommInitRootInfo: "HcclCommInitRootInfo", hcclCommDestroy: "HcclCommDestroy",
	hcclSend: "HcclSend", hcclRecv: "HcclRecv",
	hcclAllReduce: "HcclAllReduce", hcclBroadcast: "HcclBroadcast", hcclAllGather: "HcclAllGather",
	hcclReduceScatter: "HcclReduceScatter",

	aclrtPointerGetAttributes: "aclrtPointerGetAttributes",
	aclrtStreamQuery:          "aclrtStreamQuery", aclrtSynchronizeStreamWithTimeout: "aclrtSynchronizeStreamWithTimeout",
	aclrtDestroyStreamForce: "aclrtDestroyStreamForce", aclrtStreamAbort: "aclrtStreamAbort",
	aclrtCreateEventWithFlag: "aclrtCreateEventWithFlag", aclrtCreateEventExWithFlag: "aclrtCreateEventExWithFlag",
	aclrtQueryEventStatus:            "aclrtQueryEventStatus",
	aclrtSynchronizeEventWithTimeout: "aclrtSynchronizeEventWithTimeout",
	hcclCommInitRootInfoConfig:       "HcclCommInitRootInfoConfig", hcclGetCommConfigCapability: "HcclGetCommConfigCapability",
	hcclGetCommAsyncError: "HcclGetCommAsyncError", hcclBatchSendRecv: "HcclBatchSendRecv",
	hcclReduce: "HcclReduce", hcclAlltoAll: "HcclAlltoAll", hcclScatter: "HcclScatter", hcclBarrier: "HcclBarrier",
	hcclSimVersion: "hccl_sim_version",
}

// String is the name in the C library.
func (s Symbol) String() string {
	if s < symbolCount {
		return symbolNames[s]
	}
	return "unknown"
}

// library is the library that the symbol is looked for in.
func (s Symbol) library() library {
	if name := s.String(); name[0] == 'H' || s == hcclSimVersion {
		return hcclLib
	}
	return runtimeLib
}
