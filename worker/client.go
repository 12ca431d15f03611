package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/wire"
)

// Sync is how the workers of a job wait for each other.
type Sync = wire.Sync

// The consistency models.
const (
	BSP = wire.BSP // bulk synchronous: every step sees exactly the steps before it
	SSP = wire.SSP // stale synchronous: a read may lag Staleness steps
	ASP = wire.ASP // asynchronous
)

// Config says where the servers are and who this worker is. Zero values are
// good defaults but for Servers.
type Config struct {
	Servers   []string       // addresses of any servers of the cluster
	Cluster   string         // its name; "hcclps"
	Job       string         // what workers share; "job"
	Worker    string         // the worker's stable name; "worker-RANK"
	Rank      int            // [0, World)
	World     int            // workers of the job; 1
	Sync      Sync           // fixed by the job's first worker, like the next four
	Staleness int            // SSP only, steps
	Parts     int            // parts a step is cut into, a power of two <= 64; 1
	Sum       bool           // gradients are summed, not averaged over rows
	Seed      uint64         // of initial parameters and of the order of rows
	Data      string         // what the batches are cut from, in words: a job is resumed on the same data only
	Network   link.Network   // nil: sockets without TLS or token; backend.OpenSockets makes others
	Bulk      backend.Config // what carries bulk, as far as the servers take it too
	Deadline  time.Duration  // of one push, pull or session call; 60 s
	Logger    *slog.Logger   // nil: discard
}

func (cfg Config) withDefaults() Config {
	if cfg.Cluster == "" {
		cfg.Cluster = "hcclps"
	}
	if cfg.Job == "" {
		cfg.Job = "job"
	}
	if cfg.World == 0 {
		cfg.World = 1
	}
	if cfg.Worker == "" {
		cfg.Worker = fmt.Sprintf("worker-%d", cfg.Rank)
	}
	if cfg.Parts == 0 {
		cfg.Parts = 1
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = 60 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Bulk.Logger = cfg.Logger
	return cfg
}

// Validate reports every fault of a configuration.
func (cfg Config) Validate() error {
	var errs []error
	if len(cfg.Servers) == 0 {
		errs = append(errs, errors.New("no server addresses"))
	}
	if cfg.World < 0 || cfg.Rank < 0 || cfg.Rank >= max(cfg.World, 1) {
		errs = append(errs, fmt.Errorf("rank %d of %d workers: want 0 <= rank < world", cfg.Rank, cfg.World))
	}
	if cfg.Staleness < 0 || cfg.Staleness != 0 && cfg.Sync != SSP {
		errs = append(errs, fmt.Errorf("staleness %d is for ssp only", cfg.Staleness))
	}
	if p := cfg.Parts; p < 0 || p > wire.MaxParts || p&(p-1) != 0 {
		errs = append(errs, fmt.Errorf("%d parts: want a power of two up to %d", p, wire.MaxParts))
	}
	if err := cfg.Bulk.Validate(); err != nil {
		errs = append(errs, err)
	}
	if cfg.Deadline < 0 {
		errs = append(errs, fmt.Errorf("deadline %v", cfg.Deadline))
	}
	return errors.Join(errs...)
}

// Client is one worker's session with the servers.
type Client struct {
	cfg     Config
	servers *cluster
	session session
	tables  map[string]*table // by name
	step    atomic.Uint64     // steps this worker has completed: its clock
	sent    push              // the step under way
	pulls   sync.Pool         // *pull

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
	lc, err := link.NewClient(link.Config{
		Network: cfg.Network, Pair: bulk.Pair, Upgrade: bulk.Upgrade(), Cluster: cfg.Cluster,
		// Two processes under one name are two peers: the name alone is no id.
		ID: cfg.Worker + "-" + rand.Text()[:8], Info: owner(), Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &Client{cfg: cfg, servers: newCluster(lc, cfg), tables: map[string]*table{}}
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stop = stop
	for _, part := range []func(context.Context) error{lc.Run, bulk.Run} {
		c.done.Go(func() {
			if err := part(run); err != nil {
				stop(err)
			}
		})
	}
	if err := c.open(ctx, run); err != nil {
		c.stop(err)
		c.done.Wait()
		return nil, fmt.Errorf("connect worker %s to job %s: %w", cfg.Worker, cfg.Job, err)
	}
	return c, nil
}

func (c *Client) open(ctx, run context.Context) error {
	if err := c.servers.discover(ctx); err != nil {
		return err
	}
	if err := c.openSession(ctx); err != nil {
		return err
	}
	c.done.Go(func() { c.session.keepLease(run, c) })
	return nil
}

// Close ends the session: after Finish it just says goodbye, before it the
// worker leaves the job, whose other workers go on without it. It waits for
// the client's goroutines.
func (c *Client) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := c.closeSession(ctx)
	c.stop(errors.New("client closed"))
	c.done.Wait()
	return err
}

// Abandon drops the session without a word, as a killed process would: its
// lease goes on, and a worker that connects under the same name resumes.
func (c *Client) Abandon() {
	c.stop(errors.New("client abandoned"))
	c.done.Wait()
}

// Clock is the number of steps this worker has completed.
func (c *Client) Clock() uint64 { return c.step.Load() }

// Cursor is the data position stored with the last completed step; nil before
// the first.
func (c *Client) Cursor() []byte { return c.session.cursor }

// Incarnation counts the sessions of this worker, from 1: each fences off the
// ones before.
func (c *Client) Incarnation() uint64 { return c.session.incarnation }

// Params are the job's, as its first worker fixed them.
func (c *Client) Params() wire.JobParams { return c.session.params }

func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}
