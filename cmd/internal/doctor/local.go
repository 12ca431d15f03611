package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/link"
	"hcclps/ps/raftlog"
	"hcclps/worker"
)

// Local is the machine this process runs on. client asks the servers; its Run must be running.
func Local(network link.Network, client *link.Client) System {
	return System{
		Root: os.DirFS("/"), Env: os.Environ(), Arch: runtime.GOARCH, Commands: commands{}, Kernel: kernel{},
		Network: hostNetwork{network}, Peers: servers{client}, Loader: library{}, Leftovers: DefaultPlaces().Leftovers,
	}
}

type commands struct{}

// maxOutput bounds what is read of a program's output.
const maxOutput = 1 << 20

func (commands) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, os.ErrNotExist) {
		err = exec.ErrNotFound // a path, not a name
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out[:min(len(out), maxOutput)], err
}

type kernel struct{}

func (kernel) Probe(feature string) error {
	switch feature {
	case memfd:
		return probeMemory(func([]byte) error { return nil })
	case vmRead:
		return probeMemory(probeRead)
	case pidfd:
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	default:
		return fmt.Errorf("probe %q: no such feature", feature)
	}
}

// probeMemory maps a page of a file in memory and calls f with it.
func probeMemory(f func(page []byte) error) error {
	fd, err := unix.MemfdCreate("hcclps-doctor", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	page := os.Getpagesize()
	if err := unix.Ftruncate(fd, int64(page)); err != nil {
		return err
	}
	m, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	return errors.Join(f(m), unix.Munmap(m))
}

// probeRead reads the mapping as another process would.
func probeRead(page []byte) error {
	got := make([]byte, 1)
	local := []unix.Iovec{{Base: &got[0]}}
	local[0].SetLen(1)
	remote := []unix.RemoteIovec{{Base: reflect.ValueOf(page).Pointer(), Len: 1}}
	_, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0)
	return err
}

func (kernel) Space(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, err
	}
	return Space{
		Total: int64(st.Blocks) * st.Bsize, Free: int64(st.Bavail) * st.Bsize,
		InMemory: st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC,
	}, nil
}

func (kernel) Memory() (int64, string, error) { return raftlog.FreeMemory() }

func (kernel) Files() (uint64, error) {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	return r.Cur, err
}

func (kernel) Synchronised() (bool, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unix.TIME_ERROR, err
}

type hostNetwork struct{ link.Network }

func (n hostNetwork) Listen(ctx context.Context, addr string) error {
	l, err := n.Network.Listen(ctx, addr)
	if err != nil {
		return err
	}
	return l.Close()
}

func (hostNetwork) Interfaces() ([]Interface, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []Interface
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		in := Interface{Name: i.Name, Up: i.Flags&net.FlagUp != 0}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				in.Addrs = append(in.Addrs, p.Addr())
			}
		}
		out = append(out, in)
	}
	return out, nil
}

// trips is how many calls a server gets; the fastest counts, the first has the connection in it.
const trips = 6

type servers struct{ client *link.Client }

func (s servers) Ask(ctx context.Context, addr string) (Server, error) {
	out := Server{Trip: time.Hour}
	for range trips {
		start := time.Now()
		st, err := worker.ServerStatus(ctx, s.client, addr, false)
		if err != nil {
			return out, err
		}
		out.Name, out.Version = st.Name, st.Version
		if trip := time.Since(start); trip < out.Trip {
			out.Trip, out.Ahead = trip, st.Time.Sub(start.Add(trip/2))
		}
	}
	return out, nil
}

type library struct{}

func (library) Load() (Loaded, error) {
	lib, err := acl.Load("")
	if err != nil {
		return Loaded{}, err
	}
	out := Loaded{Files: lib.Files(), Simulator: lib.Simulator()}
	if err := lib.Init(); err != nil {
		return out, fmt.Errorf("start the runtime of CANN: %w", err)
	}
	out.SoC = lib.SocName()
	if v, err := lib.Version(); err == nil {
		out.Version = v
	}
	out.Devices, err = lib.DeviceCount()
	return out, err
}
