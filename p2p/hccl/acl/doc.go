// Package acl binds libascendcl, libhccl and libhcomm, the libraries of CANN, at run time.
//
// [Load] opens the libraries with dlopen, so one binary runs on hosts with and without CANN and no CANN header is needed
// to build it. The functions of [Lib] are those of the C headers, one to one, with Go types; names lose their prefix. They
// hold no state and no lock. What the C side demands stays the caller's duty:
//
//   - A device and a context belong to an OS thread: call SetDevice on a goroutine that has called
//     runtime.LockOSThread, and make all other calls there too. HCCL keeps its device per thread as well.
//   - All operators of all communicators of one device are issued by one thread at a time; communicators of one device
//     are created one after the other; see package hccl, which does both.
//   - Memory that an asynchronous call names must outlive the work on the stream, and must not be Go memory.
//
// A call takes a tenth of a microsecond more than from C. Every failure is an [*Error], which has the code, its name,
// the library's own message and what to check, and knows by [Error.Action] whether to retry, to make a new communicator
// or to leave the device. A function that an old library lacks fails with [ErrNoSymbol]; [Lib.Has] tells beforehand.
//
// Signatures, constants, layouts and version rules were written down from the public headers of CANN 8.1 to hcomm 9.1
// and are checked in the tests against offsets from a C compiler.
package acl
