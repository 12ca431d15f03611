package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// checkSharedMemory tries what processes of one host need to share memory: memfd_create. The rest of Features is of use to know.
func checkSharedMemory(_ context.Context, p *patient) []Finding {
	var works, lacks []string
	for _, f := range Features() {
		switch err := p.Kernel.Probe(f); {
		case err == nil:
			works = append(works, f)
		case f == memfd:
			p.shm = errors.Join(p.shm, fmt.Errorf("%s: %w", f, err))
		default:
			lacks = append(lacks, fmt.Sprintf("%s (%v)", f, err))
		}
	}
	if p.shm != nil {
		level := Warn
		if p.Transport == "shm" {
			level = Fail
		}
		return []Finding{found(level, "no shared memory between processes: "+p.shm.Error(), "a seccomp profile may forbid it: allow memfd_create; until then bytes on this host go by sockets")}
	}
	out := []Finding{good("shared memory works: %s", strings.Join(works, ", "))}
	if len(lacks) > 0 {
		out = append(out, good("%s not here, which nothing needs", strings.Join(lacks, ", ")))
	}
	if _, err := fs.Stat(p.Root, "proc/self/fd"); err != nil {
		out = append(out, found(Warn, "/proc is not mounted: processes that meet over TCP cannot find each other's memory", "mount -t proc proc /proc, or let servers listen at unix:/PATH"))
	}
	if b, err := fs.ReadFile(p.Root, "proc/sys/kernel/yama/ptrace_scope"); err == nil && strings.TrimSpace(string(b)) != "0" {
		out = append(out, good("Yama is on (kernel.yama.ptrace_scope=%s), which does no harm: memory is shared by descriptor", strings.TrimSpace(string(b))))
	}
	return out
}

const (
	littleMemory = 1 << 30
	// A server keeps a reserve on disk and stops taking pushes below its high-water mark.
	diskMargin = 96 << 20
)

// checkMemory compares what is free with what is wanted, and looks at how the kernel gives memory out.
func checkMemory(_ context.Context, p *patient) []Finding {
	var out []Finding
	free, of, err := p.Kernel.Memory()
	switch {
	case err != nil:
		out = append(out, found(Warn, fmt.Sprintf("free memory is not known: %v", err), "say how much a server may use: --memory"))
	case p.Memory > free:
		out = append(out, found(Fail, fmt.Sprintf("--memory %s is more than the %s that %s leaves", size(p.Memory), size(free), of), "lower --memory or raise the limit: the kernel kills a process that goes over it"))
	case free < littleMemory:
		out = append(out, found(Warn, fmt.Sprintf("%s leaves %s", of, size(free)), "raise the memory limit (docker --memory, the pod's limits), or end something"))
	default:
		out = append(out, good("%s leaves %s", of, size(free)))
	}
	if b, err := fs.ReadFile(p.Root, "proc/sys/vm/overcommit_memory"); err == nil && strings.TrimSpace(string(b)) == "2" {
		out = append(out, found(Warn, "the kernel counts memory that is reserved but not used (vm.overcommit_memory=2): programs in Go reserve much", "sysctl -w vm.overcommit_memory=0"))
	}
	if b, err := fs.ReadFile(p.Root, "sys/kernel/mm/transparent_hugepage/enabled"); err == nil && strings.Contains(string(b), "[never]") {
		out = append(out, found(OK, "transparent huge pages are off: lookups in large tables miss the TLB more often; madvise would turn them on where they are asked for", ""))
	}
	return out
}

const (
	fewFiles  = 4096
	leastOpen = 256
)

// checkLimits looks at the number of files: a server has some connections to every worker and server.
func checkLimits(_ context.Context, p *patient) []Finding {
	n, err := p.Kernel.Files()
	const do = "ulimit -n 65536 (LimitNOFILE= of systemd, --ulimit nofile= of docker)"
	switch {
	case err != nil:
		return []Finding{found(Warn, fmt.Sprintf("the limit of open files is not known: %v", err), "")}
	case n < leastOpen:
		return []Finding{found(Fail, fmt.Sprintf("at most %d open files", n), do)}
	case n < fewFiles:
		return []Finding{found(Warn, fmt.Sprintf("at most %d open files: enough for some dozens of workers", n), do)}
	default:
		return []Finding{good("at most %d open files", n)}
	}
}

// checkClock says whether the clock of this host is kept right. Nothing that must hold depends on clocks; logs and leases are easier to read.
func checkClock(_ context.Context, p *patient) []Finding {
	var out []Finding
	switch ok, err := p.Kernel.Synchronised(); {
	case err != nil:
		out = append(out, found(OK, fmt.Sprintf("whether the clock is synchronised is not known: %v", err), ""))
	case !ok:
		out = append(out, found(Warn, "the clock of this host is not synchronised: logs of different hosts do not line up", "run chrony or systemd-timesyncd"))
	default:
		out = append(out, good("the clock of this host is synchronised"))
	}
	return out
}

// size writes bytes for people.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}
