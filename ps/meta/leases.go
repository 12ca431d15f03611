package meta

import (
	"context"
	"fmt"
	"time"

	"hcclps/ps/wire"
)

// cover gives every open session that has no lease a full one: a new leader does
// not know when the last one was renewed.
func (l *leader) cover() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.g.read(func(s *state) {
		for name, j := range s.Jobs {
			for _, w := range j.Workers {
				if w.State == sessionOpen && l.leases[name][w.Name] == nil {
					l.put(wire.SessionRef{Job: name, Worker: w.Name, Incarnation: w.Incarnation})
				}
			}
		}
	})
}

// grant starts a session's lease anew.
func (l *leader) grant(ref wire.SessionRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(ref)
}

func (l *leader) put(ref wire.SessionRef) {
	if l.leases[ref.Job] == nil {
		l.leases[ref.Job] = map[string]*lease{}
	}
	if have := l.leases[ref.Job][ref.Worker]; have != nil && have.incarnation > ref.Incarnation {
		return
	}
	l.leases[ref.Job][ref.Worker] = &lease{incarnation: ref.Incarnation, until: time.Now().Add(l.g.cfg.Lease)}
}

// revoke ends a session's lease: nobody waits for it any more.
func (l *leader) revoke(ref wire.SessionRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have := l.leases[ref.Job][ref.Worker]; have != nil && have.incarnation == ref.Incarnation {
		delete(l.leases[ref.Job], ref.Worker)
	}
}

// alone says whether no other session of the job is live. The last one is never
// expelled: nobody waits for it, and it goes on where it stopped by opening again.
func (l *leader) alone(job, worker string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for name, le := range l.leases[job] {
		if name != worker && now.Before(le.until) {
			return false
		}
	}
	return true
}

// expired lists sessions to expel now, each once.
func (l *leader) expired() []wire.SessionRef {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var refs []wire.SessionRef
	for job, leases := range l.leases {
		live := 0
		for _, le := range leases {
			if now.Before(le.until) {
				live++
			}
		}
		for worker, le := range leases {
			if live > 0 && !le.expelling && !now.Before(le.until) {
				le.expelling = true
				refs = append(refs, wire.SessionRef{Job: job, Worker: worker, Incarnation: le.incarnation})
			}
		}
	}
	return refs
}

// expire expels one session; when that fails it is tried again.
func (l *leader) expire(ctx context.Context, ref wire.SessionRef) {
	why := fmt.Sprintf("its lease of %v ended", l.g.cfg.Lease)
	l.log.Warn("session expired", "job", ref.Job, "worker", ref.Worker, "incarnation", ref.Incarnation, "lease", l.g.cfg.Lease)
	if _, err := l.change(ctx, ref.Job, expel(ref, why)); err != nil {
		l.log.Warn("session not expelled", "job", ref.Job, "worker", ref.Worker, "err", err)
		l.mu.Lock()
		defer l.mu.Unlock()
		if le := l.leases[ref.Job][ref.Worker]; le != nil {
			le.expelling = false
		}
		return
	}
	l.revoke(ref)
}
