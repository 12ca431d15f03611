package ps

import (
	"log/slog"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/shard"
)

// Durabilities of a cluster's shard groups.
const (
	QuorumDisk   = "quorum-disk"   // an append is synced to disk before it counts
	QuorumMemory = "quorum-memory" // an append is in memory that survives the process
)

// Config describes a server. The zero value of every field but Name, Dir, Listen and Peers is a good default.
type Config struct {
	Cluster       string        // name of the cluster, default "hcclps"
	Name          string        // what the operator calls this server
	Dir           string        // data directory
	LogDir        string        // folder of the Raft logs of shards; default: see Durability
	Listen        string        // address to listen on
	Advertise     string        // address others dial, default Listen
	Network       link.Network  // default: tcp
	Pair          link.PairFunc // default: tcp's
	Peers         []string      // first start: advertised addresses of all servers, this one's among them; the first founds the cluster
	Replicas      int           // copies of each group, 1, 3 or 5; default 3, or 1 with fewer than 3 servers
	Scratch       bool          // no replication and no log for shards: nothing survives a restart
	Shards        int           // default by the number of servers
	Durability    string        // QuorumDisk (default) or QuorumMemory
	Memory        int64         // bytes this server may use, default what the machine has free
	LogBudget     int64         // bytes of log a group, default 64 MiB
	AllowSameHost bool          // replicas of a group may share a host
	Heartbeat     time.Duration // default 300 ms
	Lease         time.Duration // of a worker's session, default 30 s
	FormTimeout   time.Duration // bound of the first start, default 2 min
	Version       string        // of the program, shown in status
	Logger        *slog.Logger  // nil = discard
	Bugs          shard.Bugs    // planted faults, for the verifier's own tests
}
