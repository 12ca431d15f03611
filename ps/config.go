package ps

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hcclps/internal/trace"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/shard"
)

// Durabilities of a cluster's shard groups. The meta group and unreplicated
// clusters are always QuorumDisk.
const (
	QuorumDisk   = "quorum-disk"   // an append is synced to disk before it counts
	QuorumMemory = "quorum-memory" // an append is in memory that survives the process, not the machine
)

// What a server is that was told nothing else.
const (
	DefaultCluster = "hcclps"
	DefaultListen  = "127.0.0.1:7000"
)

// Config describes a server. Dir is needed; at the first start of a cluster of
// several servers Listen and Peers too. Cluster to Insecure are recorded in Dir:
// there a zero value means "as recorded", at a first start the default. Listen,
// the files of TLS and token, Memory and LogBudget may be changed later; anything
// else that differs from the record is an error.
type Config struct {
	Cluster       string         // name of the cluster, default "hcclps"
	Name          string         // what the operator calls this server, default the name of Dir
	Dir           string         // data directory
	LogDir        string         // folder of the Raft logs of shards; default: a tmpfs for QuorumMemory, else inside Dir
	Listen        string         // address to listen on, default DefaultListen; an interface's name or a CIDR may stand for the host
	Advertise     string         // address others dial, default Listen
	TLSCert       string         // PEM files, all three or none: with the default Network every TCP connection is TLS 1.3,
	TLSKey        string         // with a certificate of the CA on both sides
	TLSCA         string         // within the host certificates are shown, and nothing is encrypted
	TokenFile     string         // with the default Network: a secret that every process of the cluster must know
	Peers         []string       // first start: advertised addresses of all servers, this one's among them; the first founds the cluster
	Replicas      int            // copies of each group, 1, 3 or 5; default 3, or 1 with fewer than 3 servers
	Scratch       bool           // one server, shards without replication or log: nothing survives a restart
	Shards        int            // a power of two; default by the number of servers
	Durability    string         // QuorumDisk (default) or QuorumMemory
	Memory        int64          // bytes this server may use; default what the machine has free
	LogBudget     int64          // bytes of log a group at most, default 1 GiB on disk, 64 MiB in memory; at first 64 MiB, then a tenth of the state
	AllowSameHost bool           // replicas of a group may share a host
	Insecure      bool           // with the default Network: Listen may be an address that other hosts reach
	Network       link.Network   // default: tcp
	Bulk          backend.Config // what carries bulk: on other than the default Network, TCP alone
	Heartbeat     time.Duration  // silence before an election, default 300 ms
	PeerHeartbeat time.Duration  // how often a connection says that it lives, default 500 ms
	PeerSuspect   time.Duration  // silence after which the other side is taken for dead, default 2 s; above everybody's PeerHeartbeat
	Lease         time.Duration  // of a worker's session, default 30 s
	Checkpoint    CheckpointConfig
	Restore       string          // first start: DIR or DIR@ID of the checkpoint that the cluster begins with
	RestoreWorld  int             // workers its job has from now on (bsp); 0: as it had
	FormTimeout   time.Duration   // bound of the first start, default 2 min
	Version       string          // of the program, shown in status
	Logger        *slog.Logger    // nil = discard
	Trace         *trace.Recorder // gets what the server does; nil = nobody
	Bugs          shard.Bugs      // planted faults, for the verifier's own tests

	sockets bool // Network is the default
}

// CheckpointConfig says where checkpoints of jobs are kept, and when they are
// made. It may be changed at each start; all servers should be told the same.
type CheckpointConfig struct {
	Dir        string        // a folder that all servers share; "": none are made
	Every      time.Duration // of each running job; 0: only when asked for
	EverySteps uint64        // or at the multiples of so many steps
	Keep       int           // the newest so many of a job; default 3
	Rate       int64         // bytes a second that each shard writes at most; 0: DefaultCheckpointRate; below 0: no bound
}

// DefaultCheckpointRate leaves a disk and a core to training.
const DefaultCheckpointRate = 64 << 20

// FirstLogBudget is what a shard's log has at first in bytes, unless Config.LogBudget is less.
const FirstLogBudget = 64 << 20

// Defaults of a Config.
const (
	mostLogOnDisk      = 1 << 30
	minLogBudget       = 4 << 20
	metaLogBudget      = 8 << 20
	defaultFormTimeout = 2 * time.Minute
)

// local fills in what belongs to this process alone and reports the faults of
// what was given; what was not may be recorded in the data directory.
func (c Config) local() (Config, error) {
	c.FormTimeout = def(c.FormTimeout, defaultFormTimeout)
	c.Version = def(c.Version, "devel")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Bulk.Logger = c.Logger
	if c.sockets = c.Network == nil; !c.sockets {
		c.Bulk = backend.Config{Transport: backend.TCP, Logger: c.Logger}
	}
	c, err := c.absolute()
	if err = errors.Join(err, c.faults()); err != nil {
		return c, fmt.Errorf("configure server %q: %w", c.called(), err)
	}
	return c, nil
}

// called is the server's name in errors, before it is known what was recorded.
func (c Config) called() string {
	if c.Name == "" && c.Dir != "" {
		return filepath.Base(c.Dir)
	}
	return c.Name
}

// withDefaults fills in what was neither given nor recorded.
func (c Config) withDefaults() Config {
	c.Cluster = def(c.Cluster, DefaultCluster)
	c.Listen = def(c.Listen, DefaultListen)
	c.Advertise = def(c.Advertise, c.Listen)
	c.Name = def(c.Name, filepath.Base(c.Dir))
	c.Durability = def(c.Durability, QuorumDisk)
	if len(c.Peers) == 0 {
		c.Peers = []string{c.Advertise}
	}
	if c.Replicas == 0 && (len(c.Peers) < 3 || c.Scratch) {
		c.Replicas = 1
	}
	c.Replicas = def(c.Replicas, 3)
	if c.Replicas == 1 {
		c.Durability = QuorumDisk
	}
	if c.LogBudget == 0 {
		c.LogBudget = FirstLogBudget
		if c.Durability == QuorumDisk {
			c.LogBudget = mostLogOnDisk
		}
	}
	return c
}

// faults reports every fault of what is said.
func (c Config) faults() error {
	errs := []error{c.Bulk.Validate(), c.Checkpoint.faults()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Dir == "" {
		bad("no data directory: set Dir (--dir)")
	}
	for _, n := range [][2]string{{"cluster name (Cluster, --cluster)", c.Cluster}, {"server name (Name, --name)", c.Name}} {
		if len(n[1]) > 64 || strings.ContainsAny(n[1], "/\x00 ") || !utf8.ValidString(n[1]) {
			bad("%s %q: want at most 64 bytes of UTF-8 without blank or slash", n[0], n[1])
		}
	}
	if addr := c.advertised(); addr != "" && len(c.Peers) > 0 && !slices.Contains(c.Peers, addr) {
		bad("this server's address (Advertise, --advertise) %s is not among the servers (Peers, --servers) %s: list every server's advertised address, the same list in the same order everywhere", addr, strings.Join(c.Peers, ", "))
	}
	for i, p := range c.Peers {
		if slices.Contains(c.Peers[:i], p) {
			bad("server address %s is listed twice in Peers (--servers)", p)
		}
	}
	if err := layout.Check(len(c.Peers), c.Replicas, c.Shards); err != nil {
		bad("layout (Peers, --servers; Replicas, --replicas; Shards, --shards): %w", err)
	}
	if c.Durability != "" && c.Durability != QuorumDisk && c.Durability != QuorumMemory {
		bad("durability (Durability, --durability) %q: want %s or %s", c.Durability, QuorumDisk, QuorumMemory)
	}
	if c.Scratch && len(c.Peers) > 1 {
		bad("%d servers without replication (Scratch, --replicas 0): it is for one server", len(c.Peers))
	}
	if c.LogBudget != 0 && c.LogBudget < minLogBudget {
		bad("log budget (LogBudget, --log-budget) of %d bytes a group: want at least %d", c.LogBudget, minLogBudget)
	}
	if c.Memory < 0 {
		bad("memory (Memory, --memory) of %d bytes is negative", c.Memory)
	}
	for _, t := range []struct {
		name string
		d    time.Duration
	}{{"Heartbeat", c.Heartbeat}, {"Lease", c.Lease}, {"FormTimeout", c.FormTimeout}, {"PeerHeartbeat", c.PeerHeartbeat}, {"PeerSuspect", c.PeerSuspect}} {
		if t.d < 0 {
			bad("%s of %v is negative", t.name, t.d)
		}
	}
	return errors.Join(errs...)
}

func def[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// host is the part of an address that says which machine it is.
func host(addr string) string {
	if strings.HasPrefix(addr, "unix:") {
		return "localhost"
	}
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}
