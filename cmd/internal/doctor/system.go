package doctor

import (
	"context"
	"io/fs"
	"net/netip"
	"path"
	"strings"
	"time"
)

// System is a machine as the checks see it. Every part is needed but Leftovers.
type System struct {
	Root     fs.FS    // its files
	Env      []string // the environment, NAME=value
	Arch     string   // as in GOARCH, for advice
	Commands Commands
	Kernel   Kernel
	Network  Network
	Peers    Peers
	Loader   Loader
	// Leftovers lists log folders in memory; nil: they are not looked for.
	Leftovers func() ([]Leftover, error)
}

// Commands runs other programs.
type Commands interface {
	// Run gives what a program writes on standard output. An error that wraps exec.ErrNotFound means that there is no such program.
	Run(ctx context.Context, name string, args ...string) ([]byte, error)
}

// Kernel answers questions about the kernel and the limits of this process.
type Kernel interface {
	// Probe tries one of Features, nil when it works.
	Probe(feature string) error
	// Space is the file system of a folder.
	Space(dir string) (Space, error)
	// Memory is what this process may still take, and of what.
	Memory() (free int64, of string, err error)
	// Files is how many files this process may have open.
	Files() (uint64, error)
	// Synchronised says whether something keeps the clock right.
	Synchronised() (bool, error)
}

// Features are what shared memory is built on.
func Features() []string { return []string{memfd, vmRead, pidfd} }

const (
	memfd  = "memfd_create"
	vmRead = "process_vm_readv"
	pidfd  = "pidfd_open"
)

// Space is a file system, in bytes.
type Space struct {
	Total, Free int64
	InMemory    bool // its files live in memory
}

// Network is what the host has of it.
type Network interface {
	Interfaces() ([]Interface, error)
	// Listen opens an address of this host and closes it again.
	Listen(ctx context.Context, addr string) error
}

// Interface is a network interface of the host.
type Interface struct {
	Name  string
	Up    bool
	Addrs []netip.Addr
}

// Peers are the servers of a cluster.
type Peers interface {
	// Ask calls the server at addr, some times.
	Ask(ctx context.Context, addr string) (Server, error)
}

// Server is a server that answered.
type Server struct {
	Name    string
	Version string
	Trip    time.Duration // the fastest round trip of a call
	Ahead   time.Duration // of the server's clock before this host's, give or take half a Trip
}

// Loader loads CANN into this process.
type Loader interface {
	// Load loads it as the programs do. Its errors are those of package acl.
	Load() (Loaded, error)
}

// Loaded is CANN as it says itself.
type Loaded struct {
	Files     []string
	Version   string // of the runtime, "" when it does not tell
	Simulator string // its version; "" for the real CANN
	SoC       string // name of the chip, "" without one
	Devices   int
}

// variables reads an environment; the last of equal names counts.
func variables(env []string) map[string]string {
	vars := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// rooted is an absolute path as a name in System.Root.
func rooted(name string) string {
	return strings.TrimPrefix(path.Join("/", name), "/")
}
