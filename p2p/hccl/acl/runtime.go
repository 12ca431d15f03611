package acl

import (
	"errors"
	"fmt"
	"unsafe"
)

// Init initialises the runtime of this process. That it was done before is no error.
func (l *Lib) Init() error {
	err := l.rt(aclInit, 0)
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == codeRepeatInitialize {
		return nil
	}
	return err
}

// Version is the version of the runtime, for comparing between ranks.
func (l *Lib) Version() (string, error) {
	var major, minor, patch int32
	err := l.rt(aclrtGetVersion, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor)), uintptr(unsafe.Pointer(&patch)))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d.%d", major, minor, patch), nil
}

// Simulator is the version of the simulator, empty if this is the real CANN.
func (l *Lib) Simulator() string { return l.text(hcclSimVersion) }

// SocName is the name of the chip, "" if it cannot be told.
func (l *Lib) SocName() string { return l.text(aclrtGetSocName) }

// DeviceCount is the number of devices this process can see.
func (l *Lib) DeviceCount() (int, error) {
	var n uint32
	err := l.rt(aclrtGetDeviceCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

// SetDevice gives this OS thread the default context of a device. It is counted: see ResetDevice.
func (l *Lib) SetDevice(id int) error { return l.rt(aclrtSetDevice, uintptr(id)) }

// ResetDevice takes back one SetDevice. The last one of the process frees what the device holds for it.
func (l *Lib) ResetDevice(id int) error { return l.rt(aclrtResetDevice, uintptr(id)) }

// Malloc allocates n bytes of device memory, n > 0, aligned to 64 bytes and not zeroed. It is slow: pool.
func (l *Lib) Malloc(n int, policy MemPolicy) (uintptr, error) {
	var p uintptr
	err := l.rt(aclrtMalloc, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(policy))
	return p, err
}

// Free frees device memory.
func (l *Lib) Free(p uintptr) error { return l.rt(aclrtFree, p) }

// MallocHost allocates n bytes of pinned host memory, which asynchronous copies need.
func (l *Lib) MallocHost(n int) (uintptr, error) {
	var p uintptr
	err := l.rt(aclrtMallocHost, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

// FreeHost frees pinned host memory.
func (l *Lib) FreeHost(p uintptr) error { return l.rt(aclrtFreeHost, p) }

// Memcpy copies n bytes and waits.
func (l *Lib) Memcpy(dst, src uintptr, n int, kind CopyKind) error {
	return l.rt(aclrtMemcpy, dst, uintptr(n), src, uintptr(n), uintptr(kind))
}

// MemcpyAsync copies n bytes in the order of a stream. Host memory must be pinned.
func (l *Lib) MemcpyAsync(dst, src uintptr, n int, kind CopyKind, s Stream) error {
	return l.rt(aclrtMemcpyAsync, dst, uintptr(n), src, uintptr(n), uintptr(kind), uintptr(s))
}

// MemInfo is the free and the total bytes of a memory of this thread's device.
func (l *Lib) MemInfo(attr MemAttr) (free, total int64, err error) {
	var f, t uintptr
	err = l.rt(aclrtGetMemInfo, uintptr(attr), uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

// PointerAttributes tells what memory an address lies in.
func (l *Lib) PointerAttributes(p uintptr) (PointerAttributes, error) {
	var a PointerAttributes
	err := l.rt(aclrtPointerGetAttributes, p, uintptr(unsafe.Pointer(&a)))
	return a, err
}

// CreateStream makes a stream in this thread's context.
func (l *Lib) CreateStream() (Stream, error) {
	var s Stream
	err := l.rt(aclrtCreateStream, uintptr(unsafe.Pointer(&s)))
	return s, err
}

// DestroyStream ends a stream after its work.
func (l *Lib) DestroyStream(s Stream) error { return l.rt(aclrtDestroyStream, uintptr(s)) }

// DestroyStreamForce ends a stream without waiting for its work.
func (l *Lib) DestroyStreamForce(s Stream) error { return l.rt(aclrtDestroyStreamForce, uintptr(s)) }

// AbortStream takes the work back that is queued on a stream. The 910A has no such call.
func (l *Lib) AbortStream(s Stream) error { return l.rt(aclrtStreamAbort, uintptr(s)) }

// SynchronizeStream waits at most ms milliseconds for a stream's work, for ever if ms is -1.
func (l *Lib) SynchronizeStream(s Stream, ms int) error {
	if ms < 0 {
		return l.rt(aclrtSynchronizeStream, uintptr(s))
	}
	return l.rt(aclrtSynchronizeStreamWithTimeout, uintptr(s), uintptr(ms))
}

// StreamDone says whether a stream has no work left. A stream whose work failed is an error.
func (l *Lib) StreamDone(s Stream) (bool, error) {
	status := int32(1)
	err := l.rt(aclrtStreamQuery, uintptr(s), uintptr(unsafe.Pointer(&status)))
	return status == 0, err
}

// StreamWaitEvent makes the later work of a stream wait for an event that was recorded before.
func (l *Lib) StreamWaitEvent(s Stream, e Event) error {
	return l.rt(aclrtStreamWaitEvent, uintptr(s), uintptr(e))
}

// CreateEvent makes an event that can be waited for by streams, timed, and recorded again without a reset.
func (l *Lib) CreateEvent() (Event, error) {
	var e Event
	create := aclrtCreateEventExWithFlag
	if l.addr[create] == 0 {
		create = aclrtCreateEventWithFlag
	}
	err := l.rt(create, uintptr(unsafe.Pointer(&e)), uintptr(EventSync|EventTimeLine))
	return e, err
}

// DestroyEvent ends an event.
func (l *Lib) DestroyEvent(e Event) error { return l.rt(aclrtDestroyEvent, uintptr(e)) }

// RecordEvent puts an event behind the work of a stream.
func (l *Lib) RecordEvent(e Event, s Stream) error {
	return l.rt(aclrtRecordEvent, uintptr(e), uintptr(s))
}

// EventDone says whether the work before an event is done.
func (l *Lib) EventDone(e Event) (bool, error) {
	var status int32 // the numbers are the opposite of those of a stream
	err := l.rt(aclrtQueryEventStatus, uintptr(e), uintptr(unsafe.Pointer(&status)))
	return status == 1, err
}

// SynchronizeEvent waits at most ms milliseconds for an event. That it did not come is an error with IsWaitTimeout.
func (l *Lib) SynchronizeEvent(e Event, ms int) error {
	return l.rt(aclrtSynchronizeEventWithTimeout, uintptr(e), uintptr(ms))
}

// EventElapsed is the milliseconds between two events that have happened.
func (l *Lib) EventElapsed(start, end Event) (float32, error) {
	var ms float32
	err := l.rt(aclrtEventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(start), uintptr(end))
	return ms, err
}
