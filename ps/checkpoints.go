package ps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
	"hcclps/ps/meta"
	"hcclps/ps/reach"
	"hcclps/ps/restore"
)

// folder opens the folder of checkpoints, if there is one.
func (s *Server) folder() error {
	dir := s.cfg.Checkpoint.Dir
	if dir == "" && (s.cfg.Checkpoint.Every != 0 || s.cfg.Checkpoint.EverySteps != 0) {
		return &ConfigError{errors.New("checkpoints are to be made (Checkpoint.Every, --checkpoint-every), and there is no folder for them: give one (Checkpoint.Dir, --checkpoint-dir)")}
	}
	if dir == "" {
		return nil
	}
	var err error
	s.checkpoints, err = checkpoint.Open(checkpoint.Config{
		Dir: dir, Owner: s.owner(), Catalogue: filepath.Join(s.cfg.Dir, "catalogue"), Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("open folder of checkpoints (Checkpoint.Dir, --checkpoint-dir): %w", err)
	}
	return nil
}

// owner is in the names of the files this server writes: the random part of its
// id, since names of servers may have any letters.
func (s *Server) owner() string { return ownerOf(s.self.ID) }

func ownerOf(id string) string { return id[max(0, len(id)-2*idBytes):] }

// shared is a folder into which other clusters may write too.
type shared struct {
	*checkpoint.Store
	layout func() layout.Layout
}

// Collect implements meta.Folder: what this cluster's servers have left goes.
func (s shared) Collect(ctx context.Context, floor uint64) (checkpoint.Collected, error) {
	var owners []string
	for _, m := range s.layout().Members {
		owners = append(owners, ownerOf(m.ID))
	}
	return s.Store.Collect(ctx, floor, owners...)
}

// saves is what the meta group is told of checkpoints.
func (s *Server) saves(cfg meta.Config) meta.Config {
	if s.checkpoints != nil {
		cfg.Folder, cfg.Dir = shared{s.checkpoints, s.Layout}, s.cfg.Checkpoint.Dir
	}
	cfg.Restores = s.cfg.Restore
	cfg.Keep = meta.Keep{Last: s.cfg.Checkpoint.Keep}
	cfg.Schedule = meta.Schedule{Every: s.cfg.Checkpoint.Every, Steps: s.cfg.Checkpoint.EverySteps}
	return cfg
}

// or fills in what c does not say.
func (c CheckpointConfig) or(s CheckpointConfig) CheckpointConfig {
	if c.Every == 0 && c.EverySteps == 0 {
		c.Every, c.EverySteps = s.Every, s.EverySteps
	}
	c.Dir, c.Keep, c.Rate = cmp.Or(c.Dir, s.Dir), cmp.Or(c.Keep, s.Keep), cmp.Or(c.Rate, s.Rate)
	return c
}

// faults are what cannot be.
func (c CheckpointConfig) faults() error {
	if c.Every < 0 || c.Keep < 0 {
		return fmt.Errorf("checkpoints (Checkpoint) every %v, %d kept: want no negative numbers", c.Every, c.Keep)
	}
	return nil
}

// rate is the bound of each shard, 0 for none.
func (c CheckpointConfig) rate() int64 {
	return max(def(c.Rate, DefaultCheckpointRate), 0)
}

// restorable tells, before the founder makes a cluster, whether what it is to begin with can be opened.
func (s *Server) restorable(ctx context.Context) error {
	if s.cfg.Restore == "" || s.cfg.Peers[0] != s.cfg.Advertise {
		return nil
	}
	from, err := restore.ParseSource(s.cfg.Restore)
	if err != nil {
		return err
	}
	_, closing, err := from.Open(ctx, "")
	if err != nil {
		return fmt.Errorf("restore from %s (Restore, --restore): %w", s.cfg.Restore, err)
	}
	return closing()
}

// begin brings the checkpoint that a new cluster begins with. The founder does it;
// until it is done nobody can open a job.
func (s *Server) begin(ctx context.Context) error {
	if s.cfg.Restore == "" || s.cfg.Peers[0] != s.cfg.Advertise {
		return nil
	}
	var done string
	if _, err := load(s.store, keyRestored, &done); err != nil || done == s.cfg.Restore {
		return err
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	report, err := s.bring(ctx)
	if err != nil {
		return err
	}
	s.log.Info("restored", "job", report.Job, "checkpoint", report.Checkpoint, "step", report.Step, "rows", report.Rows)
	return save(s.store, keyRestored, s.cfg.Restore)
}

func (s *Server) bring(ctx context.Context) (report restore.Report, err error) {
	from, err := restore.ParseSource(s.cfg.Restore)
	if err != nil {
		return report, err
	}
	c, closing, err := from.Open(ctx, "")
	if err != nil {
		return report, fmt.Errorf("restore from %s (Restore, --restore): %w", s.cfg.Restore, err)
	}
	defer func() { err = errors.Join(err, closing()) }()
	return restore.Run(ctx, restore.Config{From: c, Dir: from.Dir, World: s.cfg.RestoreWorld, To: reach.New(s.client, s.Layout())})
}

// OpenCheckpoints opens a folder of checkpoints that is there, beside the servers that write into it, to look after
// it: to list, verify, read and delete.
func OpenCheckpoints(dir string) (*checkpoint.Store, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open folder of checkpoints: %w", err)
	}
	return checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "operator"})
}
