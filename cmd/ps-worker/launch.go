package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/sockets"
	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/worker"
)

// reportDirEnv is the folder in which workers started by launch leave their
// reports.
const reportDirEnv = "HCCLPS_REPORT_DIR"

func launchCommand() *cli.Command {
	env := program.Env
	return &cli.Command{
		Name:      "launch",
		Usage:     "run a job of real processes on this machine: servers and workers",
		ArgsUsage: "-- PROGRAM [ARGUMENT ...]",
		Description: "ps-worker launch -n 2 --servers 3 -- ps-worker train --data train.libsvm --test test.libsvm\n" +
			"Each worker gets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, HCCLPS_SERVERS, HCCLPS_JOB, HCCLPS_WORKER and HCCLPS_TOKEN_FILE.\n" +
			"With --servers 0 the workers are alone: train --mode allreduce.\n" +
			"Without --token-file a token is made: no other process takes part.\n" +
			"The kill flags prove that nothing is lost: processes are killed with SIGKILL and started again at once.\n" + cpuShareHelp,
		Flags: slices.Concat([]cli.Flag{
			&cli.IntFlag{Name: "workers", Aliases: []string{"n"}, Value: 1, Usage: "worker processes", EnvVars: env("workers")},
			&cli.IntFlag{Name: "servers", Value: 3, Usage: "server processes; 0: none, for train --mode allreduce", EnvVars: env("launch-servers")},
			&cli.IntFlag{Name: "replicas", Value: 3, Usage: "copies of each shard, on as many servers: 1, 3 or 5", EnvVars: env("replicas")},
			&cli.IntFlag{Name: "shards", Value: 4, Usage: "parts that the parameters are dealt over, a power of two", EnvVars: env("shards")},
			&cli.StringFlag{Name: "durability", Value: ps.QuorumMemory, Usage: ps.QuorumDisk + " or " + ps.QuorumMemory, EnvVars: env("durability")},
			&cli.StringFlag{Name: "log-budget", Value: "8MiB", Usage: "bytes of a shard's log, in each server", EnvVars: env("log-budget")},
			&cli.StringFlag{Name: "memory", Usage: "memory of each server for tables, requests on their way, copies for snapshots and logs in memory, such as 2GiB; not in it: up to 30 MiB of the program itself, and files that it maps and the system can drop from memory, which are logs on disk (--log-budget a shard) and cold rows; default: what is free", EnvVars: env("memory")},
			&cli.StringFlag{Name: "dir", Usage: "data `DIR`; default: a temporary one, removed at the end", EnvVars: env("dir")},
			&cli.StringFlag{Name: "job", Usage: "`NAME` the workers share; default: random, or job with --dir", EnvVars: env("job")},
			&cli.StringFlag{Name: "kill-leader-every", Usage: "kill the leader of the next group every `D` (a duration, or Nsteps)"},
			&cli.StringFlag{Name: "kill-worker-every", Usage: "kill the next worker every `D` (a duration, or Nsteps)"},
			&cli.StringFlag{Name: "kills", Value: "20,5", Usage: "at most `L,W` leader and worker kills"},
			&cli.IntFlag{
				Name: "max-rebuilds", Value: worker.DefaultMaxRebuilds,
				Usage: "start a worker again that dies while the others go on without it, at most `N` times in all; default: what PROGRAM has as --max-rebuilds",
			},
			&cli.StringFlag{Name: "ps-server", Usage: "`PATH` of ps-server; default: beside this program, else in PATH"},
			&cli.BoolFlag{Name: "tcp", Usage: "servers listen on loopback ports, not on Unix sockets"},
			program.ProfileFlag("; for out.json workers write out.RANK.json, servers out.NAME.json"),
			&cli.StringFlag{Name: "devices", Usage: "NPUs of the workers, one each: `LIST` such as 0-3,6", EnvVars: env("devices")},
			&cli.StringFlag{Name: "server-devices", Usage: "NPUs of the servers, where they are to take part in hccl", EnvVars: env("server-devices")},
		}, serverCheckpointFlags(), program.NetworkFlags(), program.TransportFlags(), program.LogFlags("warn"), program.ConfigFlags()),
		Action: launch,
	}
}

func launch(c *cli.Context) (err error) {
	if printed, perr := program.PrintedConfig(c); printed || perr != nil {
		return perr
	}
	l, err := newLauncher(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.cleanUp()) }()
	return l.run(c.Context)
}

// launcher is one local job: its folder, its processes and what was done to
// them.
type launcher struct {
	c         *cli.Context
	dir       string
	temporary bool
	job       string
	restore   string // DIR@ID that the servers begin with
	cluster   string
	addrs     []string
	token     string   // path
	command   []string // of a worker
	serverBin string
	devices   devices
	plan      killPlan
	procs     *processes
	meeting   *meeting
}

func newLauncher(c *cli.Context) (*launcher, error) {
	l := &launcher{c: c, command: c.Args().Slice(), job: c.String("job"), dir: c.String("dir")}
	if len(l.command) == 0 {
		return nil, program.Usage("a program is needed after --: the worker, such as ps-worker train --data FILE")
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	most, err := l.restarts()
	if err != nil {
		return nil, err
	}
	log, err := program.Logger(c)
	if err != nil {
		return nil, err
	}
	if err := l.parse(); err != nil {
		return nil, err
	}
	if err := l.place(); err != nil {
		return nil, err
	}
	if l.addrs, err = addresses(c, l.dir); err != nil {
		return nil, err
	}
	l.procs = newProcesses(c.App.Writer, c.App.ErrWriter, log)
	l.procs.most = most
	l.procs.env = shareVariable(cpuShare(os.Environ(), runtime.GOMAXPROCS(0), len(l.addrs)+c.Int("workers")))
	return l, l.findToken()
}

// check refuses numbers of processes that cannot be.
func (l *launcher) check() error {
	c := l.c
	if c.Int("workers") < 1 || c.Int("servers") < 0 {
		return program.Usage("--workers %d, --servers %d: want 1 or more workers, and 0 or more servers", c.Int("workers"), c.Int("servers"))
	}
	if n := c.Int("servers"); n > 0 {
		if err := layoutFits(n, l.replicas(), c.Int("shards")); err != nil {
			return err
		}
	}
	_, badMemory := program.Bytes("memory", c.String("memory"))
	_, badBudget := program.Bytes("log-budget", c.String("log-budget"))
	return errors.Join(badMemory, badBudget, program.OneOf("--durability", c.String("durability"), ps.QuorumDisk, ps.QuorumMemory), l.withoutServers(), l.checkCheckpoints())
}

// parse reads how processes speak, what hurts them, and finds their programs.
func (l *launcher) parse() (err error) {
	c := l.c
	if err := errors.Join(program.CheckNetwork(c), program.OneOf("--transport", c.String("transport"), backend.Transports()...)); err != nil {
		return err
	}
	if l.devices, err = parseDevices(c); err != nil {
		return err
	}
	if l.plan, err = parseKills(c); err != nil {
		return err
	}
	if c.Int("servers") > 0 {
		if l.serverBin, err = findServer(c.String("ps-server")); err != nil {
			return err
		}
	}
	l.command[0], err = findProgram(l.command[0])
	return err
}

// place makes the folder of the job, and names the job and its cluster.
func (l *launcher) place() (err error) {
	l.cluster = "launch-" + ps.DrawName(8) // doctor knows by the length that nobody comes back for it
	if l.job == "" {
		l.job = "job-" + ps.DrawName(6)
	}
	if l.dir == "" {
		l.temporary = true
		if l.dir, err = os.MkdirTemp("", "hcclps-launch-"); err != nil {
			return err
		}
	} else {
		if l.dir, err = filepath.Abs(l.dir); err != nil {
			return err
		}
		if l.cluster, err = clusterOf(l.dir); err != nil { // found again by the next launch on this folder
			return err
		}
		if !l.c.IsSet("job") && l.restore == "" {
			l.job = "job"
		}
	}
	return os.MkdirAll(filepath.Join(l.dir, "reports"), 0o700)
}

// addresses is where the servers listen.
func addresses(c *cli.Context, dir string) ([]string, error) {
	var addrs []string
	for i := range c.Int("servers") {
		addr := "unix:" + filepath.Join(dir, fmt.Sprintf("s%d.sock", i+1))
		if c.Bool("tcp") {
			port, err := sockets.FreePort()
			if err != nil {
				return nil, err
			}
			addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// findToken takes the token that was given or left by an earlier launch, or makes one.
func (l *launcher) findToken() (err error) {
	if l.token = l.c.String("token-file"); l.token != "" {
		l.token, err = filepath.Abs(l.token)
		return err
	}
	l.token = filepath.Join(l.dir, "token")
	f, err := os.OpenFile(l.token, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make token: %w", err)
	}
	_, err = f.WriteString(rand.Text())
	return errors.Join(err, f.Close())
}

// clusterOf names the cluster of a folder: the same at each launch as long as
// its data is there, another for every other folder, also one that is on the same
// path later.
func clusterOf(dir string) (string, error) {
	cluster, err := ps.FolderRecord(dir, "cluster", func() string { return "launch-" + ps.DrawName(16) })
	if err == nil && cluster == "" {
		err = fmt.Errorf("%s has data of servers that launch did not start: name another folder (--dir)", dir)
	}
	return cluster, err
}

// run starts the servers, then the workers, hurts them as planned, and waits
// for the workers to finish.
func (l *launcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer l.procs.stopAll()
	l.procs.onFailure = func(name string, err error) { cancel(fmt.Errorf("%s ended: %w", name, err)) }
	w, stopWatching, err := l.serve(ctx, cancel)
	if err != nil {
		return err
	}
	defer stopWatching()
	if l.meeting, err = l.openMeeting(ctx); err != nil {
		return err
	}
	defer l.meeting.run(ctx, cancel)()
	defer l.procs.stopWorkers() // before the place where they meet is closed
	l.procs.living = l.meeting.living
	names, err := l.startWorkers()
	if err != nil {
		return err
	}
	k := newKiller(l.plan, l.procs, w, names)
	killing := make(chan struct{})
	kctx, stopKilling := context.WithCancel(ctx)
	go func() { defer close(killing); k.run(kctx) }()
	err = l.procs.waitFor(ctx, names)
	stopKilling()
	<-killing
	if misused(err) {
		return &program.UsageError{Err: err} // a worker said so
	}
	if err != nil {
		return err
	}
	return l.report(k, w)
}

// serve starts the servers and waits until they are a cluster. What follows it until stop is called is nil without servers.
func (l *launcher) serve(ctx context.Context, fail context.CancelCauseFunc) (w *watcher, stop func(), err error) {
	if len(l.addrs) == 0 {
		return nil, func() {}, nil
	}
	for i := range l.addrs {
		if err := l.procs.start(l.server(i)); err != nil {
			return nil, nil, err
		}
	}
	if w, stop, err = l.watch(ctx, fail); err != nil {
		return nil, nil, err
	}
	ready, done := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("the servers have not formed a cluster within 2 minutes"))
	defer done()
	if err := w.untilReady(ready); err != nil {
		stop()
		return nil, nil, err
	}
	return w, stop, nil
}

// watch follows the cluster until stop is called, which waits for its end.
func (l *launcher) watch(ctx context.Context, fail context.CancelCauseFunc) (w *watcher, stop func(), err error) {
	sockets := program.Sockets(l.c, l.cluster, nil)
	sockets.TokenFile = l.token
	if w, err = newWatcher(l.addrs, l.cluster, l.job, sockets); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.run(ctx); err != nil {
			fail(fmt.Errorf("watch the cluster: %w", err))
		}
	}()
	return w, func() { cancel(); <-ended }, nil
}

// startWorkers starts every rank and returns their names.
func (l *launcher) startWorkers() ([]string, error) {
	names := make([]string, l.c.Int("workers"))
	port, err := sockets.FreePort()
	if err != nil {
		return nil, err
	}
	for rank := range names {
		p := l.worker(rank, port)
		names[rank] = p.name
		if err := l.procs.start(p); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// layoutFits says early what the servers would say in seconds.
func layoutFits(servers, replicas, shards int) error {
	var members []layout.Member
	for i := range servers {
		name := strconv.Itoa(i)
		members = append(members, layout.Member{ID: name, Name: name, Addr: name})
	}
	if _, err := layout.New(layout.Config{Members: members, Replicas: replicas, Shards: shards}); err != nil {
		return &program.UsageError{Err: err}
	}
	return nil
}

// cleanUp removes what a temporary job leaves; a named one can be resumed.
func (l *launcher) cleanUp() error {
	if !l.temporary {
		return nil
	}
	var errs []error
	for i := range l.addrs {
		errs = append(errs, os.RemoveAll(ps.MemoryLogDir(l.cluster, fmt.Sprintf("s%d", i+1))))
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}
