package raftlog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// OpenAmnesiac opens a lost log as an empty one under the same server id: a
// planted fault, with which the verifier shows that it would find a server that
// votes without the entries it has acknowledged. Nothing else may call it.
func OpenAmnesiac(cfg Config) (*Log, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open raft log of group %d in %q: %w", cfg.Group, cfg.Dir, err)
	}
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"))
	if err == nil {
		for _, f := range files {
			err = errors.Join(err, os.RemoveAll(f))
		}
		err = errors.Join(err, os.MkdirAll(cfg.Dir, 0o700))
	}
	if err != nil {
		return nil, fmt.Errorf("forget raft log of group %d: %w", cfg.Group, err)
	}
	l := Log{cfg: cfg}
	var id logID
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("draw log id: %w", err)
	}
	for name, value := range map[string][]byte{"log": logRecord{id: id}.encode(), "mark": mark{}.encode()} {
		if err := cfg.Store.write(l.key(name), value); err != nil {
			return nil, fmt.Errorf("forget raft log of group %d: %w", cfg.Group, err)
		}
	}
	return Open(cfg)
}
