package collbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/collective"
	"hcclps/p2p/hccl"
	"hcclps/p2p/inproc"
	"hcclps/p2p/shm/region"
	"hcclps/p2p/sockets"
	"hcclps/p2p/tcp"
	"hcclps/p2p/world"
)

// The transports.
const (
	Inproc = "inproc" // all ranks in one process
	Shm    = "shm"    // shared memory
	TCP    = "tcp"    // TCP on loopback
	HCCL   = "hccl"   // between NPUs of this host, or of the simulator: rank r has number r
)

// Transports lists them.
func Transports() []string { return []string{Inproc, Shm, TCP, HCCL} }

// Config says which rank of what world a process is.
type Config struct {
	Transport  string
	Ranks      int
	Rank       int
	Dir        string // a private folder for sockets
	Master     string // of tcp: where rank 0 listens
	Algorithms string // pinned, as collective.ParseAlgorithms reads them
	RankOrder  bool
	Hosts      int  // the ranks are cut into so many hosts for algorithms of two levels; 0 is 1
	Apart      bool // ranks of a host share no memory, but what a pair has
	Calibrate  bool // measure the links first, for the choice of algorithms
	Checksum   bool // CRC-32C over tcp, which training has by default and peers have not

	// Measured is told what was measured, at rank 0; nil: nobody is.
	Measured func(*collective.Calibration) error `json:"-"`
}

// patience bounds the making of the world.
const patience = time.Minute

// Body is what a rank does with its group, which runs meanwhile.
type Body func(ctx context.Context, g *collective.Group) error

// group is the configuration that all ranks have alike.
func (cfg Config) group() (collective.Config, error) {
	algorithms, err := collective.ParseAlgorithms(cfg.Algorithms)
	if err != nil {
		return collective.Config{}, err
	}
	out := collective.Config{Algorithms: algorithms, RankOrder: cfg.RankOrder, Transport: cfg.Transport}
	if cfg.Hosts > 1 {
		for r := range cfg.Ranks {
			out.Hosts = append(out.Hosts, r*cfg.Hosts/cfg.Ranks)
		}
	}
	return out, nil
}

// Together makes all ranks in this process and calls f for each.
func Together(ctx context.Context, cfg Config, f Body) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for r, comm := range inproc.World(cfg.Ranks) {
		all.Go(func() {
			failed := func(err error) {
				if err != nil {
					cancel(fmt.Errorf("rank %d: %w", r, err)) // the first one counts: the others only see a rank go
				}
			}
			group, err := cfg.group()
			if err == nil {
				cfg := cfg
				cfg.Rank, group.Comm = r, comm
				err = cfg.links(ctx, &group)
			}
			if err == nil {
				err = do(ctx, group, func(ctx context.Context, g *collective.Group) error {
					err := f(ctx, g)
					failed(err)
					return err
				})
			}
			failed(err)
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// links measures the links of a group that is to be, if it is asked to.
func (cfg Config) links(ctx context.Context, group *collective.Config) error {
	if !cfg.Calibrate {
		return nil
	}
	c, err := collective.Calibrate(ctx, group.Comm)
	if err != nil {
		return err
	}
	group.Inside, group.Across = c.Links(group.Hosts)
	if cfg.Rank == 0 && cfg.Measured != nil {
		return cfg.Measured(c)
	}
	return nil
}

// do makes a group and runs it beside f. All ranks leave it together.
func do(ctx context.Context, cfg collective.Config, f Body) error {
	g, err := collective.New(cfg)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	err = f(ctx, g)
	if err == nil {
		err = g.Barrier().Wait(ctx)
	}
	err = errors.Join(err, g.Close())
	if why := <-ended; err != nil && why != nil {
		return why // what an operation says is said here, once
	}
	return err
}

// errDone ends what ran for the measurement.
var errDone = errors.New("measured")

// Join makes this process a rank of a world of processes, and calls f when all are there.
func Join(ctx context.Context, cfg Config, f Body) (err error) {
	group, err := cfg.group()
	if err != nil {
		return err
	}
	running, stop := context.WithCancelCause(ctx)
	var runs sync.WaitGroup
	defer runs.Wait()
	defer stop(errDone)
	pair, device, err := cfg.pair(running, &runs)
	if err != nil {
		return err
	}
	w, err := world.Open(ctx, world.Config{
		Rank: cfg.Rank, Size: cfg.Ranks, Master: cfg.master(), Listen: cfg.listen(), Network: sockets.Network{}, Pair: pair,
		Job: "bench", Timeout: patience, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	runs.Go(func() { _ = w.Run(running) }) // what there is to say, the group says
	comm, err := w.Comm(ctx, "bench", nil)
	if err != nil {
		return err
	}
	group.Comm, group.Control, group.Epoch = comm, w, uint64(w.Epoch())
	if err := cfg.links(ctx, &group); err != nil {
		return err
	}
	if device != nil {
		native, failed := backend.NewNative(ctx, comm, device, fmt.Sprintf("bench %s %d", filepath.Base(cfg.Dir), w.Epoch()))
		if failed != nil {
			return failed
		}
		if native != nil {
			group.Native = native
		}
	}
	if cfg.Transport == Shm && !cfg.Apart {
		r, failed := backend.Share(ctx, comm, group.Hosts, region.Config{})
		if failed != nil {
			return failed
		}
		if r != nil {
			group.Shared = r
			defer func() { err = errors.Join(err, r.Close()) }()
		}
	}
	return do(ctx, group, f)
}

func (cfg Config) master() string {
	if cfg.Transport == TCP {
		return cfg.Master
	}
	return "unix:" + filepath.Join(cfg.Dir, "r0.sock")
}

func (cfg Config) listen() string {
	if cfg.Transport == TCP || cfg.Rank == 0 {
		return ""
	}
	return "unix:" + filepath.Join(cfg.Dir, fmt.Sprintf("r%d.sock", cfg.Rank))
}

// pair is what makes the pairs of this rank, and its device if it has one, which runs until ctx ends.
func (cfg Config) pair(ctx context.Context, runs *sync.WaitGroup) (world.PairFunc, *hccl.Device, error) {
	if cfg.Transport == HCCL {
		device, err := hccl.Open(hccl.Config{Device: cfg.Rank})
		if err != nil {
			return nil, nil, err
		}
		runs.Go(func() { _ = device.Run(ctx) }) // its pairs say why
		return func(ctx context.Context, conns []net.Conn, rank int) (p2p.RunningComm, error) {
			return device.Pair(ctx, conns[0], rank)
		}, device, nil
	}
	if cfg.Transport == TCP {
		sums := tcp.Config{Checksum: tcp.ChecksumOff}
		if cfg.Checksum {
			sums.Checksum = tcp.ChecksumOn
		}
		return func(_ context.Context, conns []net.Conn, rank int) (p2p.RunningComm, error) {
			return sums.Pair(conns, rank), nil
		}, nil, nil
	}
	bulk, err := backend.NewBulk(backend.Config{Transport: backend.SHM, NoFallback: true})
	if err != nil {
		return nil, nil, err
	}
	return bulk.Pair, nil, nil
}
