package acl

// The handles of the C side. Zero is none.
type (
	// Stream is an aclrtStream: a queue of work on a device.
	Stream uintptr
	// Event is an aclrtEvent: a mark in a stream.
	Event uintptr
	// Comm is an HcclComm.
	Comm uintptr
)

// CopyKind is an aclrtMemcpyKind.
type CopyKind int32

// The directions of a copy.
const (
	HostToHost     CopyKind = 0
	HostToDevice   CopyKind = 1
	DeviceToHost   CopyKind = 2
	DeviceToDevice CopyKind = 3
)

// MemPolicy is an aclrtMemMallocPolicy.
type MemPolicy int32

// The policies of Malloc.
const (
	HugeFirst  MemPolicy = 0
	NormalOnly MemPolicy = 2
)

// MemAttr is an aclrtMemAttr: which memory GetMemInfo speaks of.
type MemAttr int32

// The memories.
const (
	DDR MemAttr = 0
	HBM MemAttr = 1
)

// Flags of an event.
const (
	EventSync     uint32 = 0x1
	EventTimeLine uint32 = 0x8
)

// DataType is an HcclDataType. It is not the aclDataType of the runtime.
type DataType int32

// The data types of HCCL.
const (
	Int8    DataType = 0
	Int16   DataType = 1
	Int32   DataType = 2
	Float16 DataType = 3
	Float32 DataType = 4
	Int64   DataType = 5
	Uint64  DataType = 6
	Uint8   DataType = 7
	Uint16  DataType = 8
	Uint32  DataType = 9
	Float64 DataType = 10
	BFloat  DataType = 11
)

// ReduceOp is an HcclReduceOp.
type ReduceOp int32

// The reductions.
const (
	Sum  ReduceOp = 0
	Prod ReduceOp = 1
	Max  ReduceOp = 2
	Min  ReduceOp = 3
)

// RootInfoBytes is the size of an HcclRootInfo.
const RootInfoBytes = 4108

// RootInfo is an HcclRootInfo: what the other ranks need to find the root. It is opaque and travels as it is.
type RootInfo [RootInfoBytes]byte

// SendRecvKind is an HcclSendRecvType.
type SendRecvKind int32

// The kinds of an item of a batch.
const (
	ItemSend SendRecvKind = 0
	ItemRecv SendRecvKind = 1
)

// SendRecvItem is an HcclSendRecvItem, in its C layout.
type SendRecvItem struct {
	Kind  SendRecvKind
	_     int32
	Buf   uintptr // device memory
	Count uint64
	Type  DataType
	Peer  uint32
}

// PointerAttributes is an aclrtPtrAttributes, in its C layout.
type PointerAttributes struct {
	ID       uint32 // of the device
	Type     int32  // 0 host, 1 device
	PageSize uint32
	_        [4]uint32
}
