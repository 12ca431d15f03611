package world

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Host is the rendezvous of a world in a process that is none of its ranks, so that it outlives each of them: a launcher's, mostly.
type Host struct {
	center  *center
	started atomic.Bool
}

// OpenHost listens at cfg.Listen, or cfg.Master, for ranks. Of cfg also Size, Network, Job, Host, Info, Heartbeat, Suspect, Gather, Least and Logger count; the
// times and the job are those of the ranks. Without a job it is that of the first rank that comes. A Host that is not to run must be closed.
func OpenHost(ctx context.Context, cfg Config) (*Host, error) {
	cfg.Rank = 0
	err := cfg.setDefaults(false)
	if cfg.Size == 1 {
		err = errors.Join(err, errors.New("a world of one meets nowhere"))
	}
	if err != nil {
		return nil, fmt.Errorf("configure rendezvous: %w", err)
	}
	d, err := cfg.door(ctx)
	if err != nil {
		return nil, fmt.Errorf("open rendezvous: %w", err)
	}
	return &Host{center: newCenter(&cfg, d)}, nil
}

// Addr is where it listens: what ranks have as Master.
func (h *Host) Addr() string { return h.center.door.ln.Addr().String() }

// Living is how many ranks of the epoch under way are there, as far as the Host has heard; 0: there is none under way. It may be called at any time.
func (h *Host) Living() int {
	h.center.mu.Lock()
	defer h.center.mu.Unlock()
	return h.center.living()
}

// Run serves ranks until ctx ends, and closes the rendezvous. Ranks that have not left by then take it for lost. It runs once.
func (h *Host) Run(ctx context.Context) error {
	if h.started.Swap(true) {
		return errors.New("run rendezvous: it ran already, or was closed")
	}
	h.center.run(ctx)
	h.center.close()
	return nil
}

// Close lets go of a Host that was never run.
func (h *Host) Close() error {
	if !h.started.Swap(true) {
		h.center.close()
	}
	return nil
}
