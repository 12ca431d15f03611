package ps

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"hcclps/ps/layout"
	"hcclps/ps/raftlog"
)

// Keys of the server's own records in Badger.
const (
	keyIdentity  = "server/identity"
	keyFormation = "server/formation"
	keySettings  = "server/settings"
	keyLogDir    = "server/logdir"
	keyRestored  = "server/restored"
)

// idBytes is the length of the random part of a server's id.
const idBytes = 8

// identity is who this server is, for as long as its data directory lives.
type identity struct {
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	ID      string `json:"id"` // random: the Raft id and address
}

// formation is how the cluster was founded; the same on every server.
type formation struct {
	layout.Layout
	Durability string `json:"durability"`
	Scratch    bool   `json:"scratch,omitempty"`
}

// decodeFormation reads a formation from outside and checks it.
func decodeFormation(b []byte) (formation, error) {
	var f formation
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("read formation: %w", err)
	}
	if f.Durability != QuorumDisk && f.Durability != QuorumMemory {
		return f, fmt.Errorf("read formation: durability %q is unknown to this version", f.Durability)
	}
	return f, f.Validate()
}

// durable names the durability of shard groups in status.
func (f formation) durable() string {
	if f.Scratch {
		return "NONE (scratch: nothing survives a restart)"
	}
	return f.Durability
}

// load reads a record; found is false when there is none.
func load(store *raftlog.Store, key string, v any) (found bool, err error) {
	b, err := store.Get(key)
	if errors.Is(err, raftlog.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return false, fmt.Errorf("read record %s: %w", key, err)
	}
	return true, nil
}

// save writes a record; it is on disk when save returns.
func save(store *raftlog.Store, key string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		err = store.Set(key, b)
	}
	if err != nil {
		return fmt.Errorf("write record %s: %w", key, err)
	}
	return nil
}

// identify reads who this server is, or makes it so at the first start.
func identify(store *raftlog.Store, cfg Config) (identity, error) {
	var id identity
	found, err := load(store, keyIdentity, &id)
	if err != nil {
		return id, err
	}
	if found {
		if id.Cluster != cfg.Cluster || id.Name != cfg.Name {
			return id, &ConfigError{fmt.Errorf("%s holds server %q of cluster %q, started as %q of %q: leave the names (Name, --name; Cluster, --cluster) out, or use another directory", cfg.Dir, id.Name, id.Cluster, cfg.Name, cfg.Cluster)}
		}
		return id, nil
	}
	random := make([]byte, idBytes)
	_, _ = rand.Read(random) // never fails: documented
	id = identity{Cluster: cfg.Cluster, Name: cfg.Name, ID: cfg.Name + "-" + hex.EncodeToString(random)}
	return id, save(store, keyIdentity, id)
}
