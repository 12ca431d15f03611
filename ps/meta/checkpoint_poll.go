package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// poll asks every shard how far its part is, until all are as wanted.
func (l *leader) poll(ctx context.Context, s *saver, wanted func(wire.CheckpointPart) bool) error {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		try, cancel := context.WithTimeout(ctx, writeFor)
		err := l.look(try, s)
		late := ctx.Err() == nil && try.Err() != nil
		cancel()
		switch {
		case late:
			return fmt.Errorf("not every shard group has said in %v how far its part is: %w", writeFor, context.DeadlineExceeded)
		case err != nil:
			return err
		}
		missing, idle := s.lacking(wanted)
		switch {
		case missing == nil:
			return nil
		case missing.State == wire.PartWaiting && idle > stalledFor:
			return fmt.Errorf("no step of job %q in %v: %s waits for step %d", s.job, stalledFor, layout.GroupName(missing.Group), s.step)
		case missing.State == wire.PartWriting && idle > writeFor:
			return fmt.Errorf("%s has written nothing in %v, after %d pages: does its folder hang?", layout.GroupName(missing.Group), writeFor, missing.Pages)
		}
		if !sleep(ctx, pause) {
			return errDeposed
		}
	}
}

// lacking is a part that is not as wanted, one that waits for its cut if there is
// such, and how long there was no step; else the one that has not grown for longest, and how long.
func (s *saver) lacking(wanted func(wire.CheckpointPart) bool) (missing *wire.CheckpointPart, idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		switch {
		case wanted(p):
		case missing == nil, p.State == wire.PartWaiting, missing.State != wire.PartWaiting && s.grew[p.Group].Before(s.grew[missing.Group]):
			missing = &p
		}
	}
	if missing != nil && missing.State != wire.PartWaiting {
		return missing, time.Since(s.grew[missing.Group])
	}
	return missing, time.Since(s.moved)
}

// look asks every shard once.
func (l *leader) look(ctx context.Context, s *saver) error {
	var tasks errgroup.Group
	for _, group := range l.groups() {
		tasks.Go(func() error {
			a, body, err := l.inquire(ctx, group, &wire.Checkpoint{Group: group, Job: s.job, ID: s.id})
			if err != nil {
				return err
			}
			if a.Status != wire.OK {
				return fmt.Errorf("%s: %v: %s", layout.GroupName(group), a.Status, a.Detail)
			}
			var p wire.CheckpointPart
			if err := json.Unmarshal(body, &p); err != nil {
				return fmt.Errorf("%s: how far it is: %w", layout.GroupName(group), err)
			}
			s.note(p, a.Clock)
			if p.State == wire.PartFailed {
				return fmt.Errorf("%s: %s", layout.GroupName(group), p.Why)
			}
			return nil
		})
	}
	return tasks.Wait()
}

func (s *saver) note(p wire.CheckpointPart, clock uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, known := s.parts[p.Group]; !known || old.State != p.State || old.Pages != p.Pages || old.Bytes != p.Bytes {
		s.grew[p.Group] = time.Now()
	}
	s.parts[p.Group] = p
	if clock > s.clock {
		s.clock, s.moved = clock, time.Now()
	}
}

// everyShard tells every shard something about the checkpoint.
func (l *leader) everyShard(ctx context.Context, s *saver, do wire.CheckpointDo) error {
	var tasks errgroup.Group
	for _, group := range l.groups() {
		tasks.Go(func() error {
			a, err := l.ask(ctx, group, &wire.Checkpoint{Group: group, Job: s.job, ID: s.id, Do: do})
			if err == nil && a.Status != wire.OK && a.Status != wire.Unknown {
				err = fmt.Errorf("%s: %v: %s", layout.GroupName(group), a.Status, a.Detail)
			}
			return err
		})
	}
	return tasks.Wait()
}
