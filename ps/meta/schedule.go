package meta

import (
	"context"
	"time"

	"hcclps/ps/wire"
)

// Schedule says when checkpoints of running jobs are made; zero: when asked for.
type Schedule struct {
	Every time.Duration // so long after the last one, if there were steps since
	Steps uint64        // at multiples of it
}

const scheduleLook = time.Second

// scheduled is what the schedule remembers of a job.
type scheduled struct {
	at    time.Time // of the last checkpoint, or when this leader first saw the job
	clock uint64    // steps then
	seen  uint64    // steps at the last look
}

// schedule makes checkpoints while this replica leads.
func (l *leader) schedule(ctx context.Context) {
	plan := l.g.cfg.Schedule
	if l.g.cfg.Folder == nil || plan.Every <= 0 && plan.Steps == 0 {
		return
	}
	jobs := map[string]*scheduled{}
	for sleep(ctx, scheduleLook) {
		for _, job := range l.live() {
			clock, err := l.probe(ctx, job)
			if err != nil {
				break
			}
			s := jobs[job]
			if s == nil {
				s = &scheduled{at: time.Now(), seen: clock}
				jobs[job] = s
			}
			if s.due(plan, clock) {
				l.scheduledSave(ctx, job, plan, s)
			}
			s.seen = clock
		}
	}
}

// due says whether a checkpoint is to be planned now.
func (s *scheduled) due(plan Schedule, clock uint64) bool {
	if plan.Every > 0 && time.Since(s.at) >= plan.Every && clock > s.clock {
		return true
	}
	if plan.Steps == 0 || clock <= s.clock && s.clock > 0 {
		return false
	}
	soon := clock + margin + 3*(clock-min(clock, s.seen)) // within a few looks
	return soon >= (clock/plan.Steps+1)*plan.Steps
}

func (l *leader) scheduledSave(ctx context.Context, job string, plan Schedule, s *scheduled) {
	var busy bool
	l.g.read(func(st *state) { busy = st.Checkpoint != nil })
	if busy {
		return
	}
	got, err := l.change(ctx, job, wire.Plan{Kind: wire.PlanCheckpoint, Every: plan.Steps})
	if err != nil {
		l.log.Warn("scheduled checkpoint not begun", "job", job, "err", err)
		return
	}
	s.at, s.clock = time.Now(), max(got.T, s.seen)
}

// live lists the jobs that somebody trains.
func (l *leader) live() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	now := time.Now()
	for job, leases := range l.leases {
		for _, le := range leases {
			if now.Before(le.until) {
				names = append(names, job)
				break
			}
		}
	}
	return names
}
