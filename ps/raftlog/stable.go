package raftlog

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"

	"hcclps/ps/corrupt"
)

// Stable is a group's raft.StableStore (term and vote) inside the server's Store. Every Set is synced when it
// returns; a miss is ErrNotFound. All methods may be called concurrently.
type Stable struct {
	store  *Store
	prefix string
}

var _ raft.StableStore = (*Stable)(nil)

// Set stores val under key.
func (t *Stable) Set(key, val []byte) error { return t.store.write(t.prefix+string(key), val) }

// Get returns the value under key, or ErrNotFound itself, never wrapped: Raft compares the text.
func (t *Stable) Get(key []byte) ([]byte, error) { return t.store.read(t.prefix + string(key)) }

// SetUint64 stores val under key as 8 bytes, little endian.
func (t *Stable) SetUint64(key []byte, val uint64) error {
	return t.Set(key, binary.LittleEndian.AppendUint64(nil, val))
}

// GetUint64 returns the number under key, or 0 and ErrNotFound itself.
func (t *Stable) GetUint64(key []byte) (uint64, error) {
	v, err := t.Get(key)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, &corrupt.Error{File: t.store.dir, Reason: fmt.Sprintf("key %q holds %d bytes, not a number", t.prefix+string(key), len(v))}
	}
	return binary.LittleEndian.Uint64(v), nil
}
