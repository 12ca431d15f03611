// Package sim builds a simulator of the CANN libraries: libascendcl, libhccl and libhcomm as one C library over host
// memory and sockets. It has the symbols, struct layouts and rules of the real ones, so that a program written for HCCL
// runs on it unchanged on a machine without an NPU, and so that the binding in hcclps/p2p/hccl can be tested.
//
//	lib, err := sim.Build(ctx, dir)
//
// compiles the C sources embedded here with $CC (cc by default) and leaves in dir: libhccl_sim.so with everything;
// libhccl.so, libhcomm.so, libascendcl.so and libacl_rt.so, which are links to it; and include/ with headers to compile
// a program against. A program is then built and run by
//
//	cc -I dir/include prog.c -L dir -lhccl -lascendcl && LD_LIBRARY_PATH=dir ./a.out
//
// Ranks are processes, or threads of one process on different devices, of one machine. They meet over loopback TCP as
// HCCL does, and move bytes over abstract Unix sockets and memory files: all of it goes with the process, even on kill
// -9. Device memory is a range of addresses the host cannot touch: reading it faults, as on an NPU.
//
// # What it adds
//
// A simulator says so: one line on stderr at the first aclInit (unless HCCL_SIM_QUIET=1), and the symbol
// hccl_sim_version, which no real library has. The SoC name looks real.
//
// It catches what is undefined on hardware: operators of one device issued by two threads at once, two communicators
// created at once on one device (both HCCL_E_INTERNAL), operators of one communicator on two streams that nothing orders
// (HcclGetCommAsyncError says HCCL_E_INTERNAL), host memory given to an operator (HCCL_E_PARA), buffers freed under a
// running operator (EI0012).
//
// Variables, all read once per process:
//
//	HCCL_SIM_CHIP        910A, 910B (default), A3 or 310P
//	HCCL_SIM_CANN        8.1 (default), 8.5 or 9.0: config capability and struct size
//	HCCL_SIM_DEVICES     number of devices (default: of the chip)
//	HCCL_SIM_HBM         memory of a device: bytes, or with K, M, G (default 32G, virtual)
//	HCCL_SIM_HOST        name of the simulated server; when given, an NPU belongs to one process of it (EI0020)
//	HCCL_SIM_SECOND_MS   how long a second of HCCL's own time-outs lasts (default 1000)
//	HCCL_SIM_LINK        hccs (default) or rdma: with rdma a dead peer gives the asynchronous error 21 first
//	HCCL_SIM_LATENCY_US  added to every piece of a transfer
//	HCCL_SIM_BANDWIDTH   bytes per second of a transfer, with K, M, G (default unlimited)
//	HCCL_SIM_CREATE_MS   extra time in every communicator creation
//	HCCL_SIM_ISSUE_MS    extra time inside every operator call
//	HCCL_SIM_DIE         phase[@rank][:n]: the process kills itself in meet (before the root knows of it), in create
//	                     (once the root does), in first (link building), or in later (when its n-th operator runs)
//	HCCL_SIM_DEATH       silent (default): a dead peer shows as on hardware, by the exec time-out; fast: at once
//	HCCL_SIM_FAIL        function:n:code,...: the n-th call (* every) of a function returns the code
//	HCCL_SIM_TASK_FAIL   n:code: the n-th operator that runs fails with this aclError
//	HCCL_SIM_STRICT      1: a second thread that issues operators is an error even when it is alone; 2: so is (with
//	                     HCCL_E_INTERNAL) destroying a communicator whose operators are still on a stream
//	HCCL_SIM_NOOP        1: operators, copies and events do nothing, to measure the cost of a binding
//	HCCL_SIM_QUIET       1: no banner
//
// A task that failed in a stream is told once, by the next wait for the stream, and for good where the stream stops on
// failure; what is queued behind it runs all the same, and events recorded behind it complete: check the stream.
//
// HCCL's own variables (HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT, HCCL_BUFFSIZE, HCCL_IF_IP, HCCL_IF_BASE_PORT, ...)
// are read and range-checked as HCCL does; ASCEND_RT_VISIBLE_DEVICES and ASCEND_GLOBAL_LOG_LEVEL work too (logs go to
// stderr; level 4 is silence).
package sim
