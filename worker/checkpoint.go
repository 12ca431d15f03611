package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"hcclps/ps/wire"
)

// Checkpoints says where the checkpoints of a job are that has no servers, and whether it goes on from one. Rank 0 reads and writes them. With
// servers these write them, to folders of their own, and are restored before workers come.
type Checkpoints struct {
	Dir    string // a folder, made if it is missing; "": there are none
	Resume bool   // go on from the job's newest one; without that a folder that has some of this job is refused
	Keep   int    // so many are kept, and what those stand on; 3
	Rate   int64  // bytes a second that are written; 0: no bound
}

func (k Checkpoints) validate() error {
	switch {
	case k.Keep < 0 || k.Rate < 0:
		return fmt.Errorf("keep %d checkpoints, at most %d bytes a second: want 0 or more", k.Keep, k.Rate)
	case k.Resume && k.Dir == "":
		return errors.New("resume needs the folder of checkpoints")
	}
	return nil
}

// Interval is the time between two checkpoints: a number of steps, a time, or whichever is over first. Zero: there are none.
type Interval struct {
	Steps uint64
	Time  time.Duration
}

// CheckpointStats tells of the checkpoints that this client has written, or had written.
type CheckpointStats struct {
	Made    uint64
	ID      uint64        // of the last
	Step    uint64        // steps that are complete in it
	Bytes   int64         // of its rows and other state
	Written int64         // of those, what was not there already
	Took    time.Duration // from its step to the moment it existed
	Failed  uint64
	Why     string // the last one failed

	Writing bool  // one is being written
	Done    int64 // bytes of that so far
	Total   int64 // about so many it will have
}

// Checkpoint asks for a checkpoint, and returns the step it will be of: the state after all steps below. It is written while training goes on;
// Stats says when it is there. One worker asks for all.
func (c *Client) Checkpoint(ctx context.Context) (uint64, error) {
	const what = "make a checkpoint"
	switch {
	case c.servers != nil:
		p, err := c.servers.checkpoint(ctx)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		c.saves.plan(p)
		c.background(func(ctx context.Context) error {
			c.observe(ctx, p)
			return nil
		})
		return p.T, nil
	case c.local.saver == nil:
		return 0, fmt.Errorf("%s: there is no folder for it: Config.Checkpoints names it", what)
	}
	return c.plan(ctx, what, wire.Plan{Kind: wire.PlanCheckpoint})
}

// saves is what is known of checkpoints.
type saves struct {
	mu    sync.Mutex
	stats CheckpointStats
	step  uint64        // of the one under way; 0: not known yet
	id    uint64        // of that; 0: not known yet
	known chan struct{} // closed when both are known, or it has ended
	ended chan struct{} // closed when it has ended
}

func (s *saves) now() CheckpointStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// begin notes that one is under way, of a step that is 0 if it is not known, and of about so many bytes.
func (s *saves) begin(step uint64, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stats.Writing {
		s.ended, s.known, s.id = make(chan struct{}), make(chan struct{}), 0
	}
	s.step, s.stats.Writing, s.stats.Done, s.stats.Total = step, true, 0, total
}

// plan notes what the servers have planned.
func (s *saves) plan(p wire.Plan) {
	s.begin(p.T, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == 0 {
		s.id = p.Checkpoint
		close(s.known)
	}
}

// planned is the checkpoint under way, if it is of a step that is not complete; 0: there is none.
func (s *saves) planned(ctx context.Context, clock uint64) (uint64, error) {
	s.mu.Lock()
	writing, known := s.stats.Writing, s.known
	s.mu.Unlock()
	if !writing {
		return 0, nil
	}
	select {
	case <-known:
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the plan of a checkpoint: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stats.Writing || s.step <= clock {
		return 0, nil
	}
	return s.id, nil
}

// wait waits for the one under way, if it is of a step that is complete.
func (s *saves) wait(ctx context.Context, clock uint64) error {
	s.mu.Lock()
	step, ended, writing := s.step, s.ended, s.stats.Writing
	s.mu.Unlock()
	if !writing || step == 0 || step > clock {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the checkpoint of step %d: %w", step, context.Cause(ctx))
	}
}

// over notes that none is under way.
func (s *saves) over() {
	if s.stats.Writing {
		s.stats.Writing = false
		close(s.ended)
		if s.id == 0 {
			s.id = 1
			close(s.known)
		}
	}
}

// at notes how many bytes are written, and of how many if that is known better now.
func (s *saves) at(done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Done = done
	s.stats.Total = max(s.stats.Total, total)
}

func (s *saves) made(log *slog.Logger, id, step uint64, written int64, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.stats
	n.Made, n.ID, n.Step, n.Bytes, n.Written, n.Took = n.Made+1, id, step, max(n.Done, written), written, took
	s.over()
	log.Info("checkpoint", "id", id, "step", step, "bytes", n.Bytes, "written", written, "took", took)
}

func (s *saves) fail(log *slog.Logger, step uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	say := log.Warn
	if s.stats.Why == err.Error() {
		say = log.Debug // it was said
	}
	s.stats.Failed, s.stats.Why = s.stats.Failed+1, err.Error()
	s.over()
	say("a checkpoint could not be written; those before it are as they were", "step", step, "err", err)
}

// pacer asks for checkpoints when they are due.
type pacer struct {
	every Interval
	since time.Time
	due   bool
	asked uint64 // step of the last that was asked for, without servers
}

// step hears that a step is complete, and asks for a checkpoint if one is due. One that cannot be asked for now is after the next.
func (p *pacer) step(ctx context.Context, c *Client) {
	clock := c.Clock() + planAhead
	p.due = p.due || p.every.Steps > 0 && clock%p.every.Steps == 0 || p.every.Time > 0 && time.Since(p.since) >= p.every.Time
	if !p.due || c.Rank() != 0 || c.saves.now().Writing || c.Clock() <= p.asked {
		return
	}
	p.due, p.since = false, time.Now()
	if c.servers != nil {
		c.saves.begin(0, 0)
		c.background(func(ctx context.Context) error {
			if _, err := c.Checkpoint(ctx); err != nil && ctx.Err() == nil {
				c.saves.fail(c.cfg.Logger, clock, err)
			}
			return nil
		})
		return
	}
	at, err := c.Checkpoint(ctx)
	if err != nil {
		c.cfg.Logger.Debug("a checkpoint is not asked for yet", "step", c.Clock(), "err", err)
		p.due = true
		return
	}
	p.asked = at
}
