// Package layout maps a key to its partition, a partition to its shard, and a
// shard to the servers that replicate it. A Layout is an immutable value with
// an epoch: whoever changes it makes a new one with a higher epoch.
//
// Keys are mixed before they are cut into partitions, so that strided ids
// spread evenly. Partitions never change shard in a running cluster.
//
// Everything here is arithmetic on values: it starts nothing and may be called
// concurrently. A layout that came from outside is checked by Validate.
package layout

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"hcclps/internal/vec"
)

// Partitions is the fixed number of virtual hash buckets of keys.
const Partitions = 1024

// MetaGroup is the number of the Raft group that holds members, schemas,
// layout, sessions and plans. Shard i is group i+1.
const MetaGroup uint32 = 0

// MaxGroupsPerServer bounds the shard groups one server carries; the meta
// group comes on top.
const MaxGroupsPerServer = 16

// Member is one server.
type Member struct {
	ID   string `json:"id"`   // random per log incarnation; the Raft server id and address
	Name string `json:"name"` // what the operator calls it
	Addr string `json:"addr"` // where others dial it
}

// Layout says where everything is. Treat it as immutable.
type Layout struct {
	Epoch    uint64     `json:"epoch"`
	Cluster  string     `json:"cluster"`
	HashSeed uint64     `json:"hash_seed"` // of the mixing of keys; 0, so that clusters with the same data have the same digests
	Members  []Member   `json:"members"`
	Meta     []string   `json:"meta"`   // server ids of the meta group, preferred leader first
	Shards   [][]string `json:"shards"` // server ids of each shard, preferred leader first
}

// Config says what to lay out.
type Config struct {
	Cluster  string
	Members  []Member
	Replicas int // copies of each group: 1, 3 or 5
	Shards   int // power of two; 0 = DefaultShards
}

// New lays shards out over the members: replicas of neighbouring shards start
// at neighbouring members, so leaders and copies are spread evenly.
func New(cfg Config) (Layout, error) {
	n := len(cfg.Members)
	if cfg.Shards == 0 {
		cfg.Shards = DefaultShards(n, cfg.Replicas)
	}
	if n == 0 {
		return Layout{}, errors.New("lay out shards: no members")
	}
	if cfg.Replicas == 0 {
		return Layout{}, errors.New("lay out shards: 0 replicas: want 1, 3 or 5")
	}
	if err := Check(n, cfg.Replicas, cfg.Shards); err != nil {
		return Layout{}, fmt.Errorf("lay out shards: %w", err)
	}
	l := Layout{Epoch: 1, Cluster: cfg.Cluster, Members: slices.Clone(cfg.Members)}
	ring := func(first int) []string {
		ids := make([]string, cfg.Replicas)
		for i := range ids {
			ids[i] = l.Members[(first+i)%n].ID
		}
		return ids
	}
	l.Meta = ring(0)
	for s := range cfg.Shards {
		l.Shards = append(l.Shards, ring((s+1)%n))
	}
	return l, l.Validate()
}

// Check says why no layout can have these numbers. 0 is a number that is not
// known yet, which any may be.
func Check(servers, replicas, shards int) error {
	switch {
	case replicas != 0 && replicas != 1 && replicas != 3 && replicas != 5:
		return fmt.Errorf("%d replicas: want 1, 3 or 5", replicas)
	case servers != 0 && replicas > servers:
		return fmt.Errorf("%d replicas need as many servers, have %d", replicas, servers)
	case shards != 0 && (shards < 0 || shards > Partitions || bits.OnesCount(uint(shards)) != 1):
		return fmt.Errorf("%d shards: want a power of two in [1, %d]", shards, Partitions)
	case servers != 0 && perServer(shards, replicas, servers) > MaxGroupsPerServer:
		return fmt.Errorf("%d shards x %d replicas on %d servers is over %d groups a server", shards, replicas, servers, MaxGroupsPerServer)
	}
	return nil
}

// DefaultShards is the next power of two from max(8, 4 x servers), halved
// while a server would carry more than MaxGroupsPerServer shard groups.
func DefaultShards(servers, replicas int) int {
	s := 1
	for s < max(8, 4*servers) {
		s *= 2
	}
	for s > 1 && perServer(s, replicas, servers) > MaxGroupsPerServer {
		s /= 2
	}
	return s
}

func perServer(shards, replicas, servers int) int {
	return (shards*replicas + servers - 1) / max(servers, 1)
}

// Validate reports every fault of a layout that came from outside.
func (l Layout) Validate() error {
	var errs []error
	known := map[string]bool{}
	for _, m := range l.Members {
		if m.ID == "" || m.Name == "" || m.Addr == "" {
			errs = append(errs, fmt.Errorf("member %q: id, name and address are all needed", m.Name))
		}
		if known[m.ID] {
			errs = append(errs, fmt.Errorf("member %q: id %q is there twice", m.Name, m.ID))
		}
		known[m.ID] = true
	}
	if n := len(l.Shards); n < 1 || n > Partitions || bits.OnesCount(uint(n)) != 1 {
		errs = append(errs, fmt.Errorf("%d shards: want a power of two in [1, %d]", n, Partitions))
	}
	for g := range uint32(len(l.Shards) + 1) {
		ids := l.Replicas(g)
		if len(ids) == 0 {
			errs = append(errs, fmt.Errorf("%s has no replicas", GroupName(g)))
		}
		for _, id := range ids {
			if !known[id] {
				errs = append(errs, fmt.Errorf("%s: replica %q is no member", GroupName(g), id))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("check layout epoch %d: %w", l.Epoch, err)
	}
	return nil
}

// Groups is the number of Raft groups: the meta group and one a shard.
func (l Layout) Groups() uint32 { return uint32(len(l.Shards) + 1) }

// Replicas lists the server ids of a group, preferred leader first.
func (l Layout) Replicas(group uint32) []string {
	if group == MetaGroup {
		return l.Meta
	}
	if int(group) > len(l.Shards) {
		return nil
	}
	return l.Shards[group-1]
}

// Addrs lists where the replicas of a group are dialled, preferred leader first.
func (l Layout) Addrs(group uint32) []string {
	var addrs []string
	for _, id := range l.Replicas(group) {
		if m, ok := l.Member(id); ok {
			addrs = append(addrs, m.Addr)
		}
	}
	return addrs
}

// GroupOf is the Raft group of a shard, by its index.
func GroupOf(shard int) uint32 { return uint32(shard) + 1 }

// GroupName is a Raft group as people know it: meta, or a shard by its index.
func GroupName(group uint32) string {
	if group == MetaGroup {
		return "meta"
	}
	return fmt.Sprintf("shard %d", group-1)
}

// Member finds a server by id.
func (l Layout) Member(id string) (Member, bool) {
	i := slices.IndexFunc(l.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return l.Members[i], true
}

// Partition is the bucket of a key: the top bits of its 64-bit mix.
func (l Layout) Partition(key uint64) int { return Partition(key, l.HashSeed) }

// Partition is the bucket of a key under a hash seed.
func Partition(key, hashSeed uint64) int {
	return int(vec.Mix64(key, hashSeed) >> (64 - 10))
}

// Group is the Raft group that owns a key.
func (l Layout) Group(key uint64) uint32 {
	return ShardOf(l.Partition(key), len(l.Shards)) + 1
}

// ShardOf is the shard of a partition: shards own equal, contiguous ranges.
func ShardOf(partition, shards int) uint32 {
	return uint32(partition * shards / Partitions)
}

// PartOf says in which of `parts` a partition's gradients travel; a shard's
// range of partitions is cut into equal parts with the same borders on every
// worker. parts must divide Partitions/shards.
func PartOf(partition, shards, parts int) int {
	width := Partitions / shards
	return partition % width * parts / width
}
