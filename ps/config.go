package ps

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/shard"
)

// Durabilities of a cluster's shard groups. The meta group and unreplicated
// clusters are always QuorumDisk.
const (
	QuorumDisk   = "quorum-disk"   // an append is synced to disk before it counts
	QuorumMemory = "quorum-memory" // an append is in memory that survives the process, not the machine
)

// DefaultCluster is the name of a cluster nobody named.
const DefaultCluster = "hcclps"

// Config describes a server. Dir and Listen are needed; Peers too at the first
// start of a cluster of several servers. Every other zero value is a good default.
type Config struct {
	Cluster       string        // name of the cluster, default "hcclps"
	Name          string        // what the operator calls this server, default its address
	Dir           string        // data directory
	LogDir        string        // folder of the Raft logs of shards; default: a tmpfs for QuorumMemory, else inside Dir
	Listen        string        // address to listen on
	Advertise     string        // address others dial, default Listen
	Network       link.Network  // default: tcp
	Pair          link.PairFunc // default: p2p/backend's
	Peers         []string      // first start: advertised addresses of all servers, this one's among them; the first founds the cluster
	Replicas      int           // copies of each group, 1, 3 or 5; default 3, or 1 with fewer than 3 servers
	Scratch       bool          // one server, shards without replication or log: nothing survives a restart
	Shards        int           // a power of two; default by the number of servers
	Durability    string        // QuorumDisk (default) or QuorumMemory
	Memory        int64         // bytes this server may use; default what the machine has free
	LogBudget     int64         // bytes of log a group, default 64 MiB
	AllowSameHost bool          // replicas of a group may share a host
	Heartbeat     time.Duration // silence before an election, default 300 ms
	Lease         time.Duration // of a worker's session, default 30 s
	FormTimeout   time.Duration // bound of the first start, default 2 min
	Version       string        // of the program, shown in status
	Logger        *slog.Logger  // nil = discard
	Bugs          shard.Bugs    // planted faults, for the verifier's own tests
}

// Defaults of a Config.
const (
	defaultLogBudget   = 64 << 20
	minLogBudget       = 4 << 20
	metaLogBudget      = 8 << 20
	defaultFormTimeout = 2 * time.Minute
)

// withDefaults fills in what was left out and reports every fault.
func (c Config) withDefaults() (Config, error) {
	c.Cluster = def(c.Cluster, DefaultCluster)
	c.Advertise = def(c.Advertise, c.Listen)
	c.Name = def(c.Name, strings.NewReplacer(":", "-", "/", "-").Replace(c.Advertise))
	c.LogBudget = def(c.LogBudget, defaultLogBudget)
	c.FormTimeout = def(c.FormTimeout, defaultFormTimeout)
	c.Durability = def(c.Durability, QuorumDisk)
	c.Version = def(c.Version, "devel")
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
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Pair == nil {
		c.Pair = backend.Pair
	}
	var err error
	if c.Network == nil {
		c.Network, err = backend.Network("tcp")
	}
	if err = errors.Join(err, c.faults()); err != nil {
		return c, fmt.Errorf("configure server %q: %w", c.Name, err)
	}
	return c, nil
}

func (c Config) faults() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Dir == "" {
		bad("no data directory: set Dir (--dir)")
	}
	if c.Listen == "" {
		bad("no address to listen on: set Listen (--listen)")
	}
	for _, n := range [][2]string{{"cluster name (Cluster, --cluster)", c.Cluster}, {"server name (Name, --name)", c.Name}} {
		if len(n[1]) > 64 || strings.ContainsAny(n[1], "/\x00 ") || !utf8.ValidString(n[1]) {
			bad("%s %q: want at most 64 bytes of UTF-8 without blank or slash", n[0], n[1])
		}
	}
	if !slices.Contains(c.Peers, c.Advertise) {
		bad("this server's address (Advertise, --advertise) %s is not among the servers (Peers, --servers) %s: list every server's advertised address, the same list in the same order everywhere", c.Advertise, strings.Join(c.Peers, ", "))
	}
	for i, p := range c.Peers {
		if slices.Contains(c.Peers[:i], p) {
			bad("server address %s is listed twice in Peers (--servers)", p)
		}
	}
	if c.Durability != QuorumDisk && c.Durability != QuorumMemory {
		bad("durability (Durability, --durability) %q: want %s or %s", c.Durability, QuorumDisk, QuorumMemory)
	}
	if c.Scratch && len(c.Peers) > 1 {
		bad("%d servers without replication (Scratch, --replicas 0): it is for one server", len(c.Peers))
	}
	if c.LogBudget < minLogBudget {
		bad("log budget (LogBudget, --log-budget) of %d bytes a group: want at least %d", c.LogBudget, minLogBudget)
	}
	if c.Memory < 0 {
		bad("memory (Memory, --memory) of %d bytes is negative", c.Memory)
	}
	for _, t := range []struct {
		name string
		d    time.Duration
	}{{"Heartbeat", c.Heartbeat}, {"Lease", c.Lease}, {"FormTimeout", c.FormTimeout}} {
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
