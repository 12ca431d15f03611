package worker

import (
	"context"
	"errors"
	"fmt"
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
// Stats says when it is there.
func (c *Client) Checkpoint(ctx context.Context) (uint64, error) {
	const what = "make a checkpoint"
	if c.servers == nil && c.local.saver == nil {
		return 0, fmt.Errorf("%s: there is no folder for it: Config.Checkpoints names it", what)
	}
	return c.plan(ctx, what, wire.Plan{Kind: wire.PlanCheckpoint})
}

// checkpoints is what has become of those that this client writes.
func (c *Client) checkpoints() CheckpointStats {
	if c.local == nil {
		return CheckpointStats{}
	}
	return c.local.saver.now()
}

// pacer asks for checkpoints when they are due.
type pacer struct {
	every Interval
	since time.Time
	due   bool
}

// step hears that a step is complete, and asks for a checkpoint if one is due. One that cannot be made now is asked for again after the next.
func (p *pacer) step(ctx context.Context, c *Client) {
	clock := c.Clock() + planAhead
	p.due = p.due || p.every.Steps > 0 && clock%p.every.Steps == 0 || p.every.Time > 0 && time.Since(p.since) >= p.every.Time
	if !p.due || c.Rank() != 0 || c.Stats().Checkpoint.Writing {
		return
	}
	at, err := c.Checkpoint(ctx)
	if err != nil {
		c.cfg.Logger.Warn("no checkpoint", "step", c.Clock(), "err", err)
		return
	}
	c.cfg.Logger.Debug("a checkpoint will be made", "step", at)
	p.due, p.since = false, time.Now()
}
