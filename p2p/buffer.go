package p2p

// Buffer is a piece of memory that a Comm can send from or receive into. It is a small value, made by a constructor and
// passed by value. Callers that know only Bytes never see another kind.
type Buffer struct {
	host   []byte
	ptr    uintptr
	n      int
	device int // plus 1; 0 is host memory
}

// Bytes makes a Buffer of host memory. It does not copy.
func Bytes(b []byte) Buffer { return Buffer{host: b} }

// Device makes a Buffer of n bytes of device memory at ptr, an address that the runtime of the device gave out, on the
// device of that number. Only the hccl backend takes it, and only for its own device.
func Device(ptr uintptr, n, device int) Buffer { return Buffer{ptr: ptr, n: n, device: device + 1} }

// Host returns the memory as the host sees it: nil for device memory.
func (b Buffer) Host() []byte { return b.host }

// Len is the number of bytes.
func (b Buffer) Len() int {
	if b.IsDevice() {
		return b.n
	}
	return len(b.host)
}

// IsDevice says whether the memory is a device's.
func (b Buffer) IsDevice() bool { return b.device != 0 }

// DevicePointer is the address of device memory, 0 for host memory.
func (b Buffer) DevicePointer() uintptr { return b.ptr }

// DeviceID is the number of the device whose memory it is, -1 for host memory.
func (b Buffer) DeviceID() int { return b.device - 1 }
