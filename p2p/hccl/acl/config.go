package acl

import "encoding/binary"

// CommConfig is what we set of an HcclCommConfig. Zero fields leave HCCL its default, which the environment may name.
type CommConfig struct {
	BufferMiB     int    // of each of the communicator's two buffers
	Name          string // at most 127 bytes, unique in a process and device
	ExecTimeout   int    // seconds an operator waits for its peer; libraries before CANN 8.5 do not know it
	Deterministic bool
}

// The numbers of HcclGetCommConfigCapability that decide the version.
const (
	capCommName    = 2
	capExecTimeout = 8
	capBufferName  = 11
)

// layout is a version of HcclCommConfig.
type layout struct {
	version uint32
	size    int
}

// layoutOf chooses the layout to write for a library: none of them is longer than what it reads by itself, and all public
// libraries read them by the same rule, every field by the version that brought it.
func layoutOf(capability int) layout {
	switch {
	case capability > capBufferName:
		return layout{9, 2232}
	case capability > capExecTimeout:
		return layout{8, 2104}
	case capability > capCommName:
		return layout{5, 300}
	default:
		return layout{1, 32}
	}
}

// The offsets of HcclCommConfig's fields.
const (
	offSize          = 0
	offMagic         = 8
	offVersion       = 12
	offBufferSize    = 24
	offDeterministic = 28
	offCommName      = 32
	offTrafficClass  = 292
	offServiceLevel  = 296
	offExecTimeout   = 316
	lenCommName      = 128

	configMagic  = 0xF0F0F0F0
	configNotSet = 0xFFFFFFFF
)

// encode writes the struct for a library of a capability.
func (c CommConfig) encode(capability int) []byte {
	l := layoutOf(capability)
	raw := make([]byte, l.size)
	put := binary.LittleEndian.PutUint32
	binary.LittleEndian.PutUint64(raw[offSize:], uint64(l.size))
	put(raw[offMagic:], configMagic)
	put(raw[offVersion:], l.version)
	put(raw[offBufferSize:], orNotSet(c.BufferMiB))
	put(raw[offDeterministic:], configNotSet)
	if c.Deterministic {
		put(raw[offDeterministic:], 1)
	}
	if l.version >= 2 {
		copy(raw[offCommName:offCommName+lenCommName-1], c.Name)
	}
	if l.version >= 5 {
		put(raw[offTrafficClass:], configNotSet)
		put(raw[offServiceLevel:], configNotSet)
	}
	if l.version >= 8 {
		put(raw[offExecTimeout:], orNotSet(c.ExecTimeout))
	}
	return raw
}

// SetsExecTimeout says whether the library takes the exec time-out of a CommConfig; else HCCL_EXEC_TIMEOUT rules.
func (l *Lib) SetsExecTimeout() bool {
	return l.addr[hcclCommInitRootInfoConfig] != 0 && l.ConfigCapability() > capExecTimeout
}

func orNotSet(n int) uint32 {
	if n <= 0 {
		return configNotSet
	}
	return uint32(n)
}
