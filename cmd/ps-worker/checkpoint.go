package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/checkpoint"
	"hcclps/cmd/internal/program"
	"hcclps/ps"
	"hcclps/ps/restore"
	"hcclps/worker"
)

// checkpointFlags say when checkpoints are made, and where.
func checkpointFlags() []cli.Flag {
	env := program.Env
	return []cli.Flag{
		&cli.StringFlag{Name: "checkpoint-every", Usage: "rank 0 asks for a checkpoint each `N` steps, or after a time such as 10m", EnvVars: env("checkpoint-every")},
		&cli.StringFlag{
			Name: "checkpoint-dir", EnvVars: env("checkpoint-dir"),
			Usage: "write checkpoints to `DIR`, where --resume finds them: with --mode allreduce, and with --embedded; other servers have folders of their own",
		},
		&cli.IntFlag{Name: "checkpoint-keep", Value: 3, Usage: "keep the newest `N`, and what they stand on", EnvVars: env("checkpoint-keep")},
		&cli.StringFlag{Name: "checkpoint-rate", Value: "64MiB", Usage: "write at most so many bytes a second, with servers each shard; 0: no bound", EnvVars: env("checkpoint-rate")},
	}
}

// serverCheckpointFlags are those of launch, which hands them to its servers.
func serverCheckpointFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "checkpoint-dir", Usage: "`DIR` where the servers keep checkpoints; without servers it is train's"},
		&cli.StringFlag{Name: "checkpoint-every", Usage: "the servers make one so often: `10m`, or 500steps; train --checkpoint-every asks for them too"},
		&cli.IntFlag{Name: "checkpoint-keep", Usage: "the newest `N` stay; default: 3"},
		&cli.StringFlag{Name: "checkpoint-rate", Usage: "what each shard writes of one at most, a second; default: 64MiB; 0: no bound"},
		&cli.StringFlag{Name: "restore", Usage: "first start: begin with the newest checkpoint of --job in `DIR`, of its only job without it, or with DIR@ID, for --workers"},
	}
}

// checkpointArgs are those flags for a server.
func (l *launcher) checkpointArgs() (args []string) {
	for _, name := range []string{"checkpoint-dir", "checkpoint-every", "checkpoint-keep", "checkpoint-rate"} {
		if l.c.IsSet(name) {
			args = append(args, "--"+name, l.c.String(name))
		}
	}
	if l.restore != "" {
		args = append(args, "--restore", l.restore, "--restore-world", strconv.Itoa(l.c.Int("workers")))
	}
	return args
}

// checkpointing is what the flags of checkpointFlags say.
type checkpointing struct {
	every   worker.Interval
	dir     string
	keep    int
	rate    int64  // 0: no bound
	restore string // embedded: the checkpoint to begin with
}

// servers is the same for servers of this process.
func (k *checkpointing) servers() ps.CheckpointConfig {
	if k.dir == "" {
		return ps.CheckpointConfig{}
	}
	rate := k.rate
	if rate == 0 {
		rate = -1
	}
	return ps.CheckpointConfig{Dir: k.dir, Keep: k.keep, Rate: rate}
}

// checkpoints reads those flags.
func (j *job) checkpoints() (err error) {
	c, k := j.c, &j.saves
	if k.every.Steps, k.every.Time, err = program.Interval("checkpoint-every", c.String("checkpoint-every")); err != nil {
		return err
	}
	if k.rate, err = program.Bytes("checkpoint-rate", c.String("checkpoint-rate")); err != nil {
		return err
	}
	k.dir, k.keep = c.String("checkpoint-dir"), c.Int("checkpoint-keep")
	elsewhere := j.cfg.Mode != worker.AllReduce && c.Int("embedded") == 0
	switch {
	case k.keep < 1:
		return program.Usage("--checkpoint-keep %d: want 1 or more", k.keep)
	case k.dir != "" && elsewhere:
		return program.Usage("--checkpoint-dir %s: the servers write checkpoints: give it to ps-server serve, or to launch; --checkpoint-every is for train", k.dir)
	case k.dir == "" && (c.IsSet("checkpoint-keep") || c.IsSet("checkpoint-rate")):
		return program.Usage("--checkpoint-keep and --checkpoint-rate need --checkpoint-dir: where the checkpoints are")
	case k.dir == "" && k.every != (worker.Interval{}) && !elsewhere:
		return program.Usage("--checkpoint-every %s needs --checkpoint-dir: where the checkpoints are", c.String("checkpoint-every"))
	case c.Bool("resume") && j.cfg.Mode == worker.AllReduce && k.dir == "":
		return program.Usage("--resume needs --checkpoint-dir: the folder of the job's checkpoints")
	}
	if _, err := os.Stat(k.dir); c.Bool("resume") && k.dir != "" && err != nil {
		return fmt.Errorf("--resume: open folder of checkpoints: %w", err)
	}
	if j.cfg.Mode == worker.AllReduce {
		j.cfg.Checkpoints = worker.Checkpoints{Dir: k.dir, Resume: c.Bool("resume"), Keep: k.keep, Rate: k.rate}
	}
	return nil
}

// world is the workers that a restored job gets.
func (k *checkpointing) world() int {
	if k.restore == "" {
		return 0
	}
	return 1
}

// findJob finds out what servers of this process begin with: nothing, the job in --dir, or its newest checkpoint.
func (j *job) findJob() error {
	c, k := j.c, &j.saves
	dir := c.String("dir")
	_, err := os.Stat(filepath.Join(dir, "s1"))
	there := dir != "" && err == nil
	switch {
	case !c.Bool("resume") && !there:
		return j.fresh()
	case !c.Bool("resume") || there:
		return nil // train says what is wrong with it
	case k.dir != "":
		m, err := newestOf(c.Context, restore.Source{Dir: k.dir}, j.cfg.Job)
		if err != nil {
			return fmt.Errorf("--resume: job %s has nothing to go on with: %w", j.cfg.Job, err)
		}
		k.restore = restore.Source{Dir: k.dir, ID: m.ID}.String()
		return nil
	case dir == "":
		return program.Usage("--resume needs --dir, the folder of the job to go on with, or --checkpoint-dir")
	default:
		return fmt.Errorf("--resume: %s holds no job to go on with: leave --resume out to begin one: %w", dir, err)
	}
}

// newestOf is what a checkpoint says of itself: the one of a number, or else the newest of a job, of the only one if job is "".
func newestOf(ctx context.Context, from restore.Source, job string) (*checkpoint.Manifest, error) {
	c, closing, err := from.Open(ctx, job)
	if err != nil {
		return nil, err
	}
	return c.Manifest(), closing()
}

// restores finds out what the servers begin with, and whose job that is.
func (l *launcher) restores() error {
	c := l.c
	if !c.IsSet("restore") {
		return nil
	}
	from, err := restore.ParseSource(c.String("restore"))
	if err != nil {
		return program.Usage("--restore: %w", err)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "s1", "store")); l.dir != "" && err == nil {
		return program.Usage("--restore is for servers without data: those in %s go on with what they have, without it; or name another --dir", l.dir)
	}
	m, err := newestOf(c.Context, from, l.job)
	if err != nil {
		return fmt.Errorf("--restore %s: %w", from, err)
	}
	if l.job != "" && m.Job != l.job {
		return program.Usage("--restore %s is of job %s, not of %s: leave --job out", from, m.Job, l.job)
	}
	l.job, l.restore = m.Job, restore.Source{Dir: from.Dir, ID: m.ID}.String()
	return nil
}

// checkCheckpoints refuses what the servers would not take.
func (l *launcher) checkCheckpoints() error {
	c := l.c
	_, _, err := program.Interval("checkpoint-every", c.String("checkpoint-every"))
	if err == nil {
		_, err = program.Bytes("checkpoint-rate", c.String("checkpoint-rate"))
	}
	if err != nil {
		return err
	}
	if n := c.Int("checkpoint-keep"); c.IsSet("checkpoint-keep") && n < 1 {
		return program.Usage("--checkpoint-keep %d: want 1 or more", n)
	}
	for _, name := range []string{"checkpoint-every", "checkpoint-keep", "checkpoint-rate"} {
		if c.IsSet(name) && c.String("checkpoint-dir") == "" {
			return program.Usage("--%s needs --checkpoint-dir: where the servers keep checkpoints", name)
		}
	}
	return l.restores()
}

// fresh refuses a folder with checkpoints of an earlier job of that name.
func (j *job) fresh() error {
	if _, err := os.Stat(j.saves.dir); j.saves.dir == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s, err := ps.OpenCheckpoints(j.saves.dir)
	if err != nil {
		return err
	}
	m, err := s.Newest(j.c.Context, j.cfg.Job)
	switch {
	case err == nil:
		err = fmt.Errorf("%s holds checkpoints of job %s, the newest after step %d: --resume goes on with it, --job or --checkpoint-dir names another", j.saves.dir, j.cfg.Job, m.Step)
	case errors.Is(err, checkpoint.ErrNotFound):
		err = nil
	}
	return errors.Join(err, s.Close())
}

// longestRestore bounds the wait for servers that bring a checkpoint.
const longestRestore = time.Hour

// connect opens the session, when what the job begins with is there.
func (j *job) connect(ctx context.Context) (*worker.Client, error) {
	if j.saves.restore == "" {
		if k := j.cfg.Checkpoints; k.Resume && j.cfg.Rank == 0 {
			fmt.Fprintf(j.c.App.ErrWriter, "going on with job %s from the newest checkpoint in %s\n", j.cfg.Job, k.Dir)
		}
		return worker.Connect(ctx, j.cfg)
	}
	fmt.Fprintf(j.c.App.ErrWriter, "restoring job %s from its newest checkpoint, %s\n", j.cfg.Job, j.saves.restore)
	ctx, cancel := context.WithTimeout(ctx, longestRestore)
	defer cancel()
	return worker.Connect(ctx, j.cfg)
}

// checkpointed says on the line or the bar how far a checkpoint is, and what has become of the last one.
func (p *progress) checkpointed(s worker.CheckpointStats) string {
	if s.Made > p.saved.Made {
		fmt.Fprintf(p.out, "%scheckpoint %d after step %d: %.1f MiB, %.1f written, in %v\n", p.clear(), s.ID, s.Step, mib(uint64(s.Bytes)), mib(uint64(s.Written)), s.Took.Round(time.Millisecond))
	}
	if s.Failed > p.saved.Failed {
		fmt.Fprintf(p.out, "%sno checkpoint: %s\n", p.clear(), s.Why)
	}
	p.saved = s
	if !s.Writing || s.Total == 0 {
		return ""
	}
	return fmt.Sprintf("  checkpoint %d%%", min(100*s.Done/s.Total, 99))
}

// clear takes the bar off the line.
func (p *progress) clear() string {
	if p.bar != nil {
		_ = p.bar.Clear() // it is drawn again
	}
	return ""
}
