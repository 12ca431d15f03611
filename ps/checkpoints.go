package ps

import (
	"fmt"
	"path/filepath"

	"hcclps/checkpoint"
	"hcclps/ps/meta"
)

// folder opens the folder of checkpoints, if there is one.
func (s *Server) folder() error {
	dir := s.cfg.Checkpoint.Dir
	if dir == "" {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("folder of checkpoints: %w", err)
	}
	s.checkpoints, err = checkpoint.Open(checkpoint.Config{
		Dir: dir, Owner: s.owner(), Catalogue: filepath.Join(s.cfg.Dir, "catalogue"), Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("open folder of checkpoints (Checkpoint.Dir, --checkpoint-dir): %w", err)
	}
	s.cfg.Checkpoint.Dir = dir
	return nil
}

// owner is in the names of the files this server writes: the random part of its
// id, since names of servers may have any letters.
func (s *Server) owner() string { return s.self.ID[len(s.self.ID)-2*idBytes:] }

// saves is what the meta group is told of checkpoints.
func (s *Server) saves(cfg meta.Config) meta.Config {
	if s.checkpoints != nil {
		cfg.Folder, cfg.Dir = s.checkpoints, s.cfg.Checkpoint.Dir
	}
	cfg.Keep = meta.Keep{Last: s.cfg.Checkpoint.Keep}
	cfg.Schedule = meta.Schedule{Every: s.cfg.Checkpoint.Every, Steps: s.cfg.Checkpoint.EverySteps}
	return cfg
}

// rate is the bound of each shard, 0 for none.
func (c CheckpointConfig) rate() int64 {
	return max(def(c.Rate, DefaultCheckpointRate), 0)
}
