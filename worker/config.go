package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p/backend"
	"hcclps/p2p/collective"
	"hcclps/p2p/link"
	"hcclps/p2p/world"
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
	Servers     []string              // addresses of any servers of the cluster
	Cluster     string                // its name; "hcclps"
	Job         string                // what workers share; "job"
	Worker      string                // the worker's stable name; "worker-RANK"
	Rank        int                   // [0, World)
	World       int                   // workers of the job; 1
	Sync        Sync                  // fixed by the job's first worker, like the next four
	Staleness   int                   // SSP only, steps
	Parts       int                   // parts a step is cut into, a power of two <= 64; 1
	Sum         bool                  // gradients are summed, not averaged over rows
	Seed        uint64                // of initial parameters and of the order of rows
	Data        string                // what the batches are cut from, in words: a job is resumed on the same data only
	Mode        Mode                  // where parameters are; PS
	Meet        world.Config          // of AllReduce and Hybrid: where workers meet, in Hybrid by the servers if Master is empty; ranks, Network, Pair, Job, Info and Logger are filled in
	RankOrder   bool                  // of AllReduce and Hybrid: sums of dense gradients have the bits that servers would give them
	Algorithms  collective.Algorithms // of the collectives; see collective.ParseAlgorithms
	Measure     bool                  // of AllReduce and Hybrid: the links are measured when workers meet, for the choice of algorithms
	MaxRebuilds int                   // of AllReduce and Hybrid: how often workers go on without one that is lost, and 0 is DefaultMaxRebuilds; or NoRebuilds
	Network     link.Network          // nil: sockets without TLS or token; backend.OpenSockets makes others
	Bulk        backend.Config        // what carries bulk, as far as the servers take it too
	Deadline    time.Duration         // of one push, pull or session call; 60 s
	Trace       *trace.Recorder       // what this client does is recorded there; nil: a recorder of its own, that is off until Profiler starts it
	Compress    Compression           // how gradients travel; a table's description may say otherwise
	Checkpoints Checkpoints           // of AllReduce
	PullAs      string                // how weights come from servers: fp16 or bf16; "" and off: as they are, and so at the end of a job
	Flights     string                // of AllReduce and Hybrid: the folder for the last operations of this worker when they fail; "": they are not written
	Logger      *slog.Logger          // nil: discard
}

// How often the workers of a job go on without one that is lost.
const (
	DefaultMaxRebuilds = 3
	NoRebuilds         = -1
)

func (cfg Config) withDefaults() Config {
	if cfg.MaxRebuilds == 0 {
		cfg.MaxRebuilds = DefaultMaxRebuilds
	}
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
	if cfg.Trace == nil {
		cfg.Trace = trace.New(trace.Config{Process: cfg.Worker, ID: cfg.Rank})
	}
	cfg.Bulk.Logger = cfg.Logger
	return cfg
}

// Validate reports every fault of a configuration.
func (cfg Config) Validate() error {
	var errs []error
	if len(cfg.Servers) == 0 && cfg.Mode.servers() {
		errs = append(errs, errors.New("no server addresses"))
	}
	if cfg.World < 0 || cfg.Rank < 0 || cfg.Rank >= max(cfg.World, 1) {
		errs = append(errs, fmt.Errorf("rank %d of %d workers: want 0 <= rank < world", cfg.Rank, cfg.World))
	}
	if cfg.Mode > Hybrid {
		errs = append(errs, fmt.Errorf("%v is unknown", cfg.Mode))
	}
	if cfg.Mode != PS && cfg.Sync != BSP {
		errs = append(errs, fmt.Errorf("%v keeps workers in step: %v is for servers alone", cfg.Mode, cfg.Sync))
	}
	if cfg.Staleness < 0 || cfg.Staleness != 0 && cfg.Sync != SSP {
		errs = append(errs, fmt.Errorf("staleness %d is for ssp only", cfg.Staleness))
	}
	if p := cfg.Parts; p < 0 || p > wire.MaxParts || p&(p-1) != 0 {
		errs = append(errs, fmt.Errorf("%d parts: want a power of two up to %d", p, wire.MaxParts))
	}
	if err := cfg.Checkpoints.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := cfg.Bulk.Validate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := halfOf(cfg.PullAs); err != nil {
		errs = append(errs, err)
	}
	if err := cfg.Compress.validate(); err != nil {
		errs = append(errs, err)
	}
	if cfg.Deadline < 0 {
		errs = append(errs, fmt.Errorf("deadline %v", cfg.Deadline))
	}
	return errors.Join(errs...)
}
