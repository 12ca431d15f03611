package collbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// Ablation trains a model that is none: its backward pass is a timed wait for each of some tensors, as a device would leave the host idle, and their gradients
// are summed over links of a given quality, between two hosts.
type Ablation struct {
	Ranks   int           // even: half on each host
	Tensors int           // in the order in which they become ready
	Bytes   int           // of a tensor
	Compute time.Duration // of a tensor
	Batch   int           // samples of a rank and pass
	Local   int           // passes a step once gradients are accumulated
	Steps   int
	Uplink  float64 // bytes a second between the hosts, in each direction
	Link    float64 // bytes a second between two ranks of a host
	Latency time.Duration
}

// Stage is what is switched on. Each stage has what those before it have.
type Stage struct {
	Name       string
	Overlap    bool // a gradient leaves as soon as it is there
	Accumulate bool // gradients of several passes leave together
	Groups     bool // sums are made within a host before they go to the other
	Half       bool // gradients travel as float16
}

// Stages are those of an ablation, in order.
func Stages() []Stage {
	return []Stage{
		{Name: "base"},
		{Name: "+ overlap", Overlap: true},
		{Name: "+ accumulation", Overlap: true, Accumulate: true},
		{Name: "+ groups", Overlap: true, Accumulate: true, Groups: true},
		{Name: "+ fp16", Overlap: true, Accumulate: true, Groups: true, Half: true},
	}
}

// AblationResult is one stage.
type AblationResult struct {
	Stage   string  `json:"stage"`
	Samples float64 `json:"samples_s"`     // of all ranks
	Pass    float64 `json:"pass_ms"`       // a pass, with its part of the communication
	Share   float64 `json:"communication"` // of the time, in which the pass waits for sums
	Bytes   int     `json:"bytes"`         // of gradients a pass that are summed
}

// Run trains once for each stage.
func (a Ablation) Run(ctx context.Context, report func(AblationResult) error) error {
	for _, s := range Stages() {
		took, err := a.train(ctx, s)
		if err != nil {
			return fmt.Errorf("train with %s: %w", s.Name, err)
		}
		passes := a.Steps * a.local(s)
		computed := time.Duration(passes*a.Tensors) * a.Compute
		bytes := a.Tensors * a.Bytes / a.local(s)
		if s.Half {
			bytes /= 2
		}
		err = report(AblationResult{
			Stage: s.Name, Samples: float64(a.Ranks*a.Batch*passes) / took.Seconds(), Pass: took.Seconds() * 1e3 / float64(passes),
			Share: max(0, 1-computed.Seconds()/took.Seconds()), Bytes: bytes,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a Ablation) local(s Stage) int {
	if s.Accumulate {
		return a.Local
	}
	return 1
}

// train is the time of the slowest rank.
func (a Ablation) train(ctx context.Context, s Stage) (time.Duration, error) {
	hosts := make([]int, a.Ranks)
	for r := range hosts {
		hosts[r] = 2 * r / a.Ranks
	}
	f := inproc.Fabric{
		Port: a.Link, Link: inproc.Link{Latency: a.Latency, Bandwidth: a.Link},
		Hosts: hosts, Across: inproc.Link{Latency: 2 * a.Latency, Bandwidth: a.Uplink}, Uplink: a.Uplink,
	}
	var mu sync.Mutex
	var slowest time.Duration
	errs := make([]error, a.Ranks)
	var all sync.WaitGroup
	for r, comm := range f.World(a.Ranks) {
		all.Go(func() {
			cfg := collective.Config{
				Comm:   comm,
				Inside: collective.Link{Alpha: a.Latency, Bandwidth: a.Link, Reduce: 10e9, Ports: 1},
				Across: collective.Link{Alpha: 2 * a.Latency, Bandwidth: a.Uplink, Reduce: 10e9, Ports: 1},
			}
			if s.Groups {
				cfg.Hosts = hosts
			} else {
				cfg.Inside = cfg.Across
			}
			errs[r] = do(ctx, cfg, func(ctx context.Context, g *collective.Group) error {
				took, err := a.rank(ctx, g, s)
				mu.Lock()
				slowest = max(slowest, took)
				mu.Unlock()
				return err
			})
		})
	}
	all.Wait()
	return slowest, errors.Join(errs...)
}

// rank trains as one rank, after a step that does not count.
func (a Ablation) rank(ctx context.Context, g *collective.Group, s Stage) (time.Duration, error) {
	cfg := collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Avg}
	if s.Half {
		cfg.Wire = p2p.Float16
	}
	f, err := g.Fuse(cfg)
	if err != nil {
		return 0, err
	}
	gradients := make([]p2p.Buffer, a.Tensors)
	for i := range gradients {
		gradients[i] = p2p.Bytes(make([]byte, a.Bytes))
	}
	if err := a.step(ctx, f, s, gradients); err != nil {
		return 0, err
	}
	if err := g.Barrier().Wait(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range a.Steps {
		if err := a.step(ctx, f, s, gradients); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// step is some passes, the last of which sends its gradients away.
func (a Ablation) step(ctx context.Context, f *collective.Fusion, s Stage, gradients []p2p.Buffer) error {
	var buckets []*collective.Bucket
	begun := time.Now()
	for pass := range a.local(s) {
		for i := range gradients {
			ready := begun.Add(time.Duration(pass*a.Tensors+i+1) * a.Compute)
			if err := until(ctx, ready); err != nil {
				return err
			}
			if s.Overlap && pass == a.local(s)-1 {
				buckets = append(buckets, f.Add(gradients[i]))
			}
		}
	}
	if !s.Overlap {
		for _, g := range gradients {
			buckets = append(buckets, f.Add(g))
		}
	}
	f.Flush()
	for _, b := range buckets {
		if err := b.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// until waits as a rank does whose device is busy.
func until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WriteAblation writes a head, and then what becomes of each result a line.
func WriteAblation(w io.Writer, a Ablation) error {
	_, err := fmt.Fprintf(w, "# %d ranks on 2 hosts, %.3g GB/s between them; %d tensors of %d bytes; compute is a timed wait of %v a tensor\n%-16s %10s %10s %15s %12s\n",
		a.Ranks, a.Uplink/1e9, a.Tensors, a.Bytes, a.Compute, "#", "samples/s", "ms/pass", "communication", "bytes/pass")
	return err
}

// Write writes a line.
func (r AblationResult) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%-16s %10.0f %10.2f %13.1f %% %12d\n", r.Stage, r.Samples, r.Pass, 100*r.Share, r.Bytes)
	return err
}
