package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/collbench"
	"hcclps/cmd/internal/program"
	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/sockets"
)

// reductions by their names.
func reductions() []string {
	var names []string
	for r := collective.Sum; r <= collective.Avg; r++ {
		names = append(names, r.String())
	}
	return names
}

// benchCollectiveCommands are one for each operation.
func benchCollectiveCommands() []*cli.Command {
	var all []*cli.Command
	for _, op := range []collective.Op{collective.AllReduce, collective.ReduceScatter, collective.AllGather, collective.Broadcast, collective.AlltoAll} {
		all = append(all, benchCollectiveCommand(op))
	}
	return append(all, benchAblationCommand(), benchRankCommand())
}

func benchCollectiveCommand(op collective.Op) *cli.Command {
	env := program.Env
	flags := []cli.Flag{
		&cli.IntFlag{Name: "ranks", Value: 2, Usage: "processes", EnvVars: env("bench-ranks")},
		&cli.StringFlag{Name: "transport", Value: collbench.Shm, Usage: strings.Join(collbench.Transports(), ", ") + "; inproc is all ranks in one process", EnvVars: env("bench-transport")},
		&cli.StringFlag{Name: "algo", Usage: "`ALGORITHM`, such as ring, H-D_R, mesh, tree or level0:mesh;level1:ring; default: by the cost model", EnvVars: env("bench-algo")},
		&cli.IntFlag{Name: "hosts", Value: 1, Usage: "that the ranks are taken to be on, as many on each, for algorithms of two levels"},
		&cli.StringFlag{Name: "dtype", Value: p2p.Float32.String(), Usage: "float32, float16, bfloat16, float64, int32, int64 or uint8"},
		&cli.StringSliceFlag{Name: "sizes", Value: cli.NewStringSlice(strings.Split(defaultSizes, ",")...), Usage: "such as 8,1KiB,4MiB; of the larger of what a rank sends and receives", EnvVars: env("bench-sizes")},
		&cli.BoolFlag{Name: "out-of-place", Usage: "results go into other memory than what is sent"},
		&cli.BoolFlag{Name: "alloc", Usage: "buffers are the group's own (Group.Alloc), which the ranks of a host read in place"},
		&cli.BoolFlag{Name: "apart", Usage: "ranks of a host share no memory but what carries the messages of a pair"},
		&cli.BoolFlag{Name: "checksum", Usage: "CRC-32C of each message over tcp, as in training"},
		&cli.BoolFlag{Name: "calibrate", Usage: "measure the links first, and choose algorithms by what they are"},
		&cli.IntFlag{Name: "rounds", Value: 5, Usage: "in which sizes take turns, and of which the median counts", EnvVars: env("bench-rounds")},
		&cli.DurationFlag{Name: "time", Value: time.Second, Usage: "for each size, about", EnvVars: env("bench-time")},
		&cli.BoolFlag{Name: "json", Usage: "a line for each size"},
	}
	if op == collective.AllReduce || op == collective.ReduceScatter {
		flags = append(
			flags,
			&cli.StringFlag{Name: "redop", Value: collective.Sum.String(), Usage: strings.Join(reductions(), ", ")},
			&cli.StringFlag{Name: "reduce-order", Value: "any", Usage: "any, or rank: fold in the order of ranks in every algorithm", EnvVars: env("bench-reduce-order")},
		)
	}
	if op == collective.AllReduce {
		flags = append(
			flags,
			&cli.IntFlag{Name: "tensors", Usage: "`N` that make up the size, fused; default: one, as it is"},
			&cli.BoolFlag{Name: "scattered", Usage: "they do not lie one behind the other"},
			&cli.StringFlag{Name: "threshold", Usage: "of a bucket of tensors; default: " + strconv.Itoa(collective.DefaultThreshold>>20) + "MiB, in shared memory " + strconv.Itoa(collective.SharedThreshold>>20) + "MiB"},
		)
	}
	return &cli.Command{
		Name: op.String(), Usage: "one collective operation between processes of this host",
		Description: "Starts itself as the other ranks. Columns are those of nccl-tests: the time is of a call at the slowest rank, one call after the other;\n" +
			"busbw is what the links carry. The data of every size are checked outside the timed part.",
		Flags:  append(flags, program.ConfigFlags()...),
		Action: func(c *cli.Context) error { return benchCollective(c, op) },
	}
}

// collectivePlan is what all ranks are told.
type collectivePlan struct {
	World collbench.Config
	Spec  collbench.Spec
}

func benchCollective(c *cli.Context, op collective.Op) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	plan, err := newCollectivePlan(c, op)
	if err != nil {
		return err
	}
	table := collbench.NewTable(c.App.Writer, c.Bool("json"))
	table.Head(plan.title())
	plan.World.Measured = func(m *collective.Calibration) error { return table.Links(m.Links(nil)) }
	wrong := 0
	err = plan.run(c.Context, func(r collbench.Result) error {
		wrong += r.Wrong
		return table.Row(r)
	})
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d elements are wrong", wrong)
	}
	return err
}

func (p collectivePlan) title() string {
	where := "processes"
	if p.World.Transport == collbench.Inproc {
		where = "ranks of one process"
	}
	title := fmt.Sprintf("%v, %s, %d %s", p.Spec.Op, p.World.Transport, p.World.Ranks, where)
	if p.World.Transport == collbench.TCP {
		title += fmt.Sprintf(", checksums %v", p.World.Checksum)
	}
	return title
}

// newCollectivePlan reads the flags.
func newCollectivePlan(c *cli.Context, op collective.Op) (p collectivePlan, err error) {
	p.World = collbench.Config{Transport: c.String("transport"), Ranks: c.Int("ranks"), Hosts: c.Int("hosts"), Apart: c.Bool("apart"), Calibrate: c.Bool("calibrate"), Checksum: c.Bool("checksum")}
	p.Spec = collbench.Spec{Op: op, OutOfPlace: c.Bool("out-of-place"), Alloc: c.Bool("alloc"), Time: c.Duration("time"), Rounds: c.Int("rounds")}
	err = errors.Join(program.NoArguments(c), program.OneOf("--transport", p.World.Transport, collbench.Transports()...))
	if err != nil {
		return p, err
	}
	if p.Spec.DType, err = p2p.ParseDType(c.String("dtype")); err != nil {
		return p, program.Usage("--dtype: %w", err)
	}
	if name := c.String("redop"); name != "" {
		i := slices.Index(reductions(), name)
		if err := program.OneOf("--redop", name, reductions()...); err != nil {
			return p, err
		}
		if err := program.OneOf("--reduce-order", c.String("reduce-order"), "any", "rank"); err != nil {
			return p, err
		}
		p.Spec.Reduction, p.World.RankOrder = collective.Sum+collective.Reduction(i), c.String("reduce-order") == "rank"
	}
	if algo := c.String("algo"); algo != "" {
		if p.World.Algorithms = algo; !strings.Contains(algo, "=") {
			p.World.Algorithms = op.String() + "=" + algo
		}
		if _, err := algorithms(p.World.Algorithms); err != nil {
			return p, err
		}
	}
	if p.World.Ranks < 1 || p.World.Ranks > 256 || p.World.Hosts < 1 || p.World.Hosts > p.World.Ranks || p.Spec.Time <= 0 || p.Spec.Rounds < 1 {
		return p, program.Usage("--ranks %d, --hosts %d, --time %v, --rounds %d: want 1 to 256 ranks, at most as many hosts, some time, 1 round or more",
			p.World.Ranks, p.World.Hosts, p.Spec.Time, p.Spec.Rounds)
	}
	threshold, err := program.Bytes("threshold", c.String("threshold"))
	if err != nil {
		return p, err
	}
	p.Spec.Tensors, p.Spec.Scattered, p.Spec.Threshold = c.Int("tensors"), c.Bool("scattered"), int(threshold)
	if p.Spec.Tensors < 0 || p.Spec.Tensors > 0 && p.Spec.OutOfPlace {
		return p, program.Usage("--tensors %d: want some, which are reduced in place", p.Spec.Tensors)
	}
	p.Spec.Sizes, err = benchSizes(c)
	return p, err
}

// benchSizes reads --sizes.
func benchSizes(c *cli.Context) (sizes []int, err error) {
	for _, s := range c.StringSlice("sizes") {
		n, err := program.Bytes("sizes", s)
		if err != nil {
			return nil, err
		}
		if n < 1 || n > math.MaxInt32 {
			return nil, program.Usage("--sizes %s: want 1 byte or more, less than 2GiB", s)
		}
		sizes = append(sizes, int(n))
	}
	return sizes, nil
}

// run measures as rank 0, with the others in processes of their own but for inproc.
func (p collectivePlan) run(ctx context.Context, report func(collbench.Result) error) (err error) {
	body := func(ctx context.Context, g *collective.Group) error { return collbench.Measure(ctx, g, p.Spec, report) }
	if p.World.Transport == collbench.Inproc {
		return collbench.Together(ctx, p.World, body)
	}
	if p.World.Dir, err = os.MkdirTemp("", "hcclps-bench-"); err != nil {
		return fmt.Errorf("make folder for sockets: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.World.Dir)) }()
	if p.World.Transport == collbench.TCP {
		port, err := sockets.FreePort()
		if err != nil {
			return err
		}
		p.World.Master = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, p.World.Ranks)
	for rank := 1; rank < p.World.Ranks; rank++ {
		started := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // Pdeathsig is the death of this thread, not of the process
			other, err := p.start(ctx, rank)
			if started <- err; err != nil {
				return
			}
			err = other.Wait()
			if err != nil {
				err = fmt.Errorf("rank %d: %w", rank, err)
				cancel(err)
			}
			ended <- err
		}()
		if err := <-started; err != nil {
			return err
		}
	}
	if err = collbench.Join(ctx, p.World, body); err != nil {
		cancel(err)
	}
	for range p.World.Ranks - 1 {
		err = errors.Join(err, <-ended)
	}
	return err
}

// start starts this program as another rank. It ends with ctx, and when rank 0 is gone.
func (p collectivePlan) start(ctx context.Context, rank int) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p.World.Rank = rank
	plan, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("tell rank %d what to do: %w", rank, err)
	}
	cmd := exec.CommandContext(ctx, self, "bench", "rank", "--plan", string(plan))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start rank %d: %w", rank, err)
	}
	return cmd, nil
}

// benchRankCommand is one of the other ranks.
func benchRankCommand() *cli.Command {
	return &cli.Command{
		Name: "rank", Usage: "another rank of a measurement", Hidden: true,
		Flags: []cli.Flag{&cli.StringFlag{Name: "plan", Required: true}},
		Action: func(c *cli.Context) error {
			var p collectivePlan
			if err := json.Unmarshal([]byte(c.String("plan")), &p); err != nil {
				return fmt.Errorf("read the plan of a measurement: %w", err)
			}
			return collbench.Join(c.Context, p.World, func(ctx context.Context, g *collective.Group) error {
				return collbench.Measure(ctx, g, p.Spec, nil)
			})
		},
	}
}
