package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p/backend"
	"hcclps/ps/wire"
)

// Client is one worker of a job.
type Client struct {
	cfg         Config
	params      wire.JobParams // the job's
	incarnation uint64
	store       store
	servers     *servers           // nil without
	local       *replica           // nil without
	tables      map[string]*handle // by name
	step        atomic.Uint64      // steps this worker has completed: its clock
	cursor      []byte             // after the last completed step
	finished    bool
	ended       error // training has
	about       About // of the model, for checkpoints
	saves       saves
	later       uint64                                 // a checkpoint of a later step, as far as the servers have told
	uploading   chan struct{}                          // closed when the last upload has ended; nil: there was none
	background  func(part func(context.Context) error) // gives a part a goroutine that Close waits for
	waits       waits
	counters    counters
	prof        *profile
	coders      *coders // of gradients that travel compressed

	stop context.CancelCauseFunc
	done sync.WaitGroup
}

// Connect reaches the servers, opens the worker's session (fencing off an
// older one of the same name) and finds out where it left off: Clock and
// Cursor. It returns within 10 s when no server can be reached, naming each
// address and why.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	own := cfg.Trace == nil
	cfg = cfg.withDefaults()
	if cfg.Network == nil {
		var err error
		if cfg.Network, err = backend.OpenSockets(backend.Sockets{Local: cfg.Cluster, Logger: cfg.Logger}); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	bulk, err := backend.NewBulk(cfg.Bulk)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &Client{cfg: cfg, tables: map[string]*handle{}, prof: newProfile(cfg.Trace)}
	c.coders = newCoders(cfg)
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stop = stop
	c.run(run, bulk.Run)
	if own {
		c.run(run, cfg.Trace.Run)
	}
	if err := c.open(ctx, run, bulk); err != nil {
		c.stop(err)
		c.wait()
		return nil, fmt.Errorf("connect worker %s to job %s: %w", cfg.Worker, cfg.Job, err)
	}
	return c, nil
}

// run gives a part of the client its goroutine. One that fails ends the others.
func (c *Client) run(ctx context.Context, part func(context.Context) error) {
	c.done.Go(func() {
		if err := part(ctx); err != nil {
			c.stop(err)
		}
	})
}

// open makes the store. Its goroutines run in the context run.
func (c *Client) open(ctx, run context.Context, bulk *backend.Bulk) error {
	r := resumed{incarnation: 1, params: c.cfg.jobParams()}
	c.background = func(part func(context.Context) error) { c.run(run, part) }
	if c.cfg.Mode.servers() {
		s, err := newServers(c.cfg, bulk, &c.waits, &c.counters, c.coders)
		if err != nil {
			return err
		}
		c.run(run, s.link.Run)
		c.store, c.servers = s, s
	}
	if c.cfg.Mode.peers() {
		if err := c.openLocal(ctx, run, bulk); err != nil {
			return err
		}
	}
	if s := c.servers; s != nil { // after the meeting of workers: who is in its place there is refused before it takes a session
		var err error
		if r, err = s.open(ctx); err != nil {
			return err
		}
		c.done.Go(func() { s.keepLease(run) })
	}
	if c.local != nil && c.servers != nil {
		c.store = &hybrid{rows: c.servers, dense: c.local, first: r.step}
		c.local.mine = func() (uint64, uint64) { return r.incarnation, r.step }
		c.local.expel = c.servers.expel
	}
	c.resume(r)
	if c.servers != nil {
		return c.takeUploaded(ctx, r)
	}
	c.local.residuals, c.local.putResiduals = c.residuals, c.restoreResiduals
	if c.cfg.Checkpoints.Dir == "" {
		return nil
	}
	c.local.saver = newSaver(c.cfg, c.background, &c.saves)
	if err := c.local.take(ctx); err != nil {
		return err
	}
	c.follow()
	return nil
}

// openLocal makes the store of parameters that workers hold themselves, and meets the other workers.
func (c *Client) openLocal(ctx, run context.Context, bulk *backend.Bulk) (err error) {
	c.local = newReplica(c.cfg, &c.waits, &c.counters, c.coders)
	c.local.adopt = c.adopt
	c.store = c.local
	if c.cfg.World == 1 {
		return nil
	}
	var meeting *cluster
	if c.servers != nil {
		meeting = c.servers.cluster
		if err := meeting.discover(ctx); err != nil {
			return err
		}
	}
	c.local.peers, err = openPeers(ctx, c.cfg, meeting, bulk, func(part func(context.Context) error) { c.run(run, part) })
	return err
}

// resume goes on where this worker left off.
func (c *Client) resume(r resumed) {
	c.params, c.incarnation, c.cursor = r.params, r.incarnation, r.cursor
	c.step.Store(r.step)
	for _, t := range r.tables {
		c.tables[t.Name] = newTable(t)
	}
}

// adopt takes over what a table is now, in the handles that models have.
func (c *Client) adopt(t wire.Table) {
	if h := c.tables[t.Name]; h != nil {
		if describe(h.Table) != describe(t) { // a read ahead may be at it; what was loaded is adopted before there is one
			h.Table = t
		}
		return
	}
	c.tables[t.Name] = newTable(t)
}

// meet makes the parameters of all workers the same before they are used.
func (c *Client) meet(ctx context.Context) error {
	r := c.local
	if r == nil || r.met {
		return nil
	}
	if r.peers != nil {
		err := r.meet(ctx)
		if err != nil && r.peers.world.Joined() > 1 && r.peers.lost(ctx, err) { // who came in goes on like the others when one of them is lost
			if err = r.rebuild(ctx, err); errors.Is(err, ErrRebuilt) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("meet the other workers: %w", err)
		}
	}
	if h, ok := c.store.(*hybrid); ok && r.peers != nil && r.peers.world.Joined() > 1 {
		if err := h.enter(ctx); err != nil {
			return fmt.Errorf("come in among the other workers: %w", err)
		}
		c.follow()
	}
	if c.servers != nil && r.clock != c.Clock() {
		return fmt.Errorf("job %s is at step %d on the servers, and no worker has its dense tensors after it: begin a new job, from a saved model", c.cfg.Job, c.Clock())
	}
	r.met = true
	if c.servers == nil {
		c.follow()
	}
	return nil
}

// settle waits until every step that was pushed is applied.
func (c *Client) settle(ctx context.Context) error {
	if c.local == nil {
		return nil
	}
	err := c.local.settle(ctx)
	if errors.Is(err, ErrRebuilt) {
		c.follow()
	}
	return err
}

// follow goes where the replica is.
func (c *Client) follow() {
	c.step.Store(c.local.now())
	c.cursor = c.local.cursor
}

// Finish says that this worker has no more steps: nobody waits for it from now
// on. It waits for a checkpoint that this worker writes, or has asked for.
func (c *Client) Finish(ctx context.Context) error {
	err := c.lastUpload(ctx)
	if err == nil {
		err = c.uploaded(ctx)
	}
	if err == nil {
		err = c.store.finish(ctx, c.Clock())
	}
	if err == nil {
		err = c.saves.wait(ctx, c.Clock())
	}
	if err != nil {
		return fmt.Errorf("finish at step %d: %w", c.Clock(), err)
	}
	c.finished = true
	return nil
}

// Close ends the session: after Finish it just says goodbye, before it the
// worker leaves the job, whose other workers go on without it. It waits for
// the client's goroutines.
func (c *Client) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := errors.Join(c.uploaded(ctx), c.store.close(ctx, c.finished))
	c.stop(errors.New("client closed"))
	c.wait()
	return err
}

// wait waits for the client's goroutines, and lets go of what they used.
func (c *Client) wait() {
	c.done.Wait()
	if c.local != nil && c.local.peers != nil {
		c.local.unlay()
		c.local.peers.release()
	}
}

// Abandon drops the session without a word, as a killed process would: its
// lease goes on, and a worker that connects under the same name resumes. Workers
// that sum gradients with it are told.
func (c *Client) Abandon() {
	if c.local != nil && c.local.peers != nil {
		why := "it was abandoned"
		if c.ended != nil {
			why = c.ended.Error()
		}
		c.local.peers.leave(why)
	}
	c.stop(errors.New("client abandoned"))
	c.wait()
}

// Rank is this worker's number, 0 <= Rank < World. Of AllReduce it may change: see ErrRebuilt.
func (c *Client) Rank() int {
	if c.local != nil && c.local.peers != nil {
		return c.local.rank()
	}
	return c.cfg.Rank
}

// World is the number of workers.
func (c *Client) World() int {
	if c.local != nil && c.local.peers != nil {
		return c.local.peers.world.Size()
	}
	return int(c.params.World)
}

// Clock is the number of steps this worker has completed.
func (c *Client) Clock() uint64 { return c.step.Load() }

// Cursor is the data position stored with the last completed step; nil before
// the first.
func (c *Client) Cursor() []byte { return c.cursor }

// Incarnation counts the sessions of this worker, from 1: each fences off the
// ones before.
func (c *Client) Incarnation() uint64 { return c.incarnation }

// Params are the job's, as its first worker fixed them.
func (c *Client) Params() wire.JobParams { return c.params }

func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}
