package acl

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// call calls a function that returns an int-sized code, which is given back as it is.
//
//go:uintptrescapes
func (l *Lib) call(s Symbol, args ...uintptr) (int32, error) {
	if l.addr[s] == 0 {
		return 0, fmt.Errorf("call %s: %w", s, ErrNoSymbol)
	}
	r, _, _ := purego.SyscallN(l.addr[s], args...)
	return int32(uint32(r)), nil
}

// rt calls a function of the runtime and turns its aclError into an error.
//
//go:uintptrescapes
func (l *Lib) rt(s Symbol, args ...uintptr) error {
	code, err := l.call(s, args...)
	if err != nil || code == 0 {
		return err
	}
	return newError(s, false, code, l.RecentMessage())
}

// hc calls a function of HCCL and turns its HcclResult into an error.
//
//go:uintptrescapes
func (l *Lib) hc(s Symbol, args ...uintptr) error {
	code, err := l.call(s, args...)
	if err != nil || code == 0 {
		return err
	}
	return newError(s, true, code, l.RecentMessage())
}

// text calls a function that returns a C string; the string is copied.
func (l *Lib) text(s Symbol, args ...uintptr) string {
	if l.addr[s] == 0 {
		return ""
	}
	r, _, _ := purego.SyscallN(l.addr[s], args...)
	return goString(r)
}

// maxCString bounds what is read of a C string.
const maxCString = 1 << 16

// goString copies a C string at an address of C memory.
func goString(addr uintptr) string {
	if addr == 0 {
		return ""
	}
	p := *(*unsafe.Pointer)(unsafe.Pointer(&addr)) // C memory does not move
	n := 0
	for n < maxCString && *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// Memory is the n bytes of C memory at addr, as a slice: of memory from MallocHost. It is not for device memory.
func Memory(addr uintptr, n int) []byte {
	if addr == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}

// Address is where a slice of C memory lies: the opposite of Memory.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// RecentMessage gets and clears what the library says about the last failure of this OS thread.
func (l *Lib) RecentMessage() string { return l.text(aclGetRecentErrMsg) }

// callSetenv calls setenv of the C library with two texts that end in a zero byte.
func callSetenv(addr uintptr, key, value []byte) {
	purego.SyscallN(addr, uintptr(unsafe.Pointer(unsafe.SliceData(key))), uintptr(unsafe.Pointer(unsafe.SliceData(value))), 1)
}
