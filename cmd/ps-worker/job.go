package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/ps"
	"hcclps/ps/optim"
	"hcclps/ps/wire"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

// newJob checks all flags and opens all files before anything is started.
func newJob(c *cli.Context) (*job, error) {
	log, err := program.Logger(c)
	if err != nil {
		return nil, err
	}
	j := &job{c: c}
	if err := errors.Join(
		program.OneOf("--model", c.String("model"), model.Names()...),
		program.OneOf("--reduce", c.String("reduce"), "mean", "sum"),
	); err != nil {
		return nil, err
	}
	if dir := c.String("load"); dir != "" {
		if j.prior, err = readPrior(c.Context, dir); err != nil {
			return nil, err
		}
	}
	if j.model, err = modelOptions(c, j.prior); err != nil {
		return nil, err
	}
	if err := j.worker(log); err != nil {
		return nil, err
	}
	if err := j.open(log); err != nil {
		return nil, err
	}
	if j.how, err = j.training(); err != nil {
		return nil, err
	}
	j.cfg.Data = j.describeData()
	if err := j.embed(log); err != nil {
		return nil, err
	}
	if dir := c.String("save"); dir != "" && j.cfg.Rank == 0 {
		return j, worker.CheckSave(dir)
	}
	return j, nil
}

// modelOptions are the options of the model to go on with, or else the model's
// defaults, with what the flags say.
func modelOptions(c *cli.Context, from *prior) (model.Options, error) {
	o := model.Defaults(c.String("model"))
	if from != nil && from.bare {
		from = nil
	}
	if from != nil && (!c.IsSet("model") || c.String("model") == from.options.Model) {
		o = from.options
	}
	for flag, value := range map[string]*int{"dim": &o.Dim, "epochs": &o.Epochs, "batch": &o.Batch} {
		if !c.IsSet(flag) {
			continue
		}
		if *value = c.Int(flag); *value < 1 {
			return o, program.Usage("--%s %d: want 1 or more", flag, *value)
		}
	}
	if c.IsSet("optimizer") || c.IsSet("lr") {
		opt, err := optimizer(c, o.Optimizer)
		if err != nil {
			return o, err
		}
		o.Optimizer, o.Dense = ofRows(opt), opt
	}
	if o.Dense.Name == optim.OneBitAdam && c.String("mode") == worker.PS.String() {
		return o, program.Usage("--optimizer %s: workers have to sum momenta themselves: want --mode allreduce or hybrid", o.Dense.Name)
	}
	if codec := c.String("compress"); o.Dense.Name == optim.OneBitAdam && slices.Contains([]string{"off", "none"}, codec) {
		return o, program.Usage("--optimizer %s sends momenta in codes, and --compress %s wants none: leave --compress away, name a codec, or take --optimizer adam", o.Dense.Name, codec)
	}
	if from == nil || c.IsSet("schedule") {
		s, err := schedule(c.String("schedule"))
		if err != nil {
			return o, err
		}
		o.Optimizer.Schedule, o.Dense.Schedule = s, s
	}
	if err := keeping(c, &o); err != nil {
		return o, err
	}
	if from != nil {
		return o, from.agrees(o)
	}
	return o, nil
}

// ofRows is the optimizer of embedding tables: 1-bit Adam is for dense tensors, and rows learn by adam with what is said of both.
func ofRows(o worker.Optimizer) worker.Optimizer {
	if o.Name != optim.OneBitAdam {
		return o
	}
	o.Name, o.Params = "adam", maps.Clone(o.Params)
	delete(o.Params, "freeze_step")
	delete(o.Params, "floor")
	return o
}

// keeping reads --admit and --evict.
func keeping(c *cli.Context, o *model.Options) (err error) {
	if c.IsSet("admit") {
		if o.Admit, err = worker.ParseAdmit(c.String("admit")); err != nil {
			return program.Usage("--admit: %w", err)
		}
	}
	if c.IsSet("evict") {
		if o.Evict, err = worker.ParseEvict(c.String("evict")); err != nil {
			return program.Usage("--evict: %w", err)
		}
	}
	return nil
}

// optimizer reads NAME[:param=value,...] and checks it against ps/optim; given
// the rate alone, it is the model's own with another rate.
func optimizer(c *cli.Context, o worker.Optimizer) (worker.Optimizer, error) {
	s := c.String("optimizer")
	name, rest, _ := strings.Cut(s, ":")
	o.Params = maps.Clone(o.Params)
	if s != "" {
		o = worker.Optimizer{Name: name, Params: map[string]float64{}, Schedule: o.Schedule}
	}
	if c.IsSet("lr") {
		if strings.Contains(rest, "lr=") {
			return o, program.Usage("--lr %v and --optimizer %s: the learning rate is there twice", c.Float64("lr"), s)
		}
		o.Params["lr"] = c.Float64("lr")
	}
	for p := range strings.SplitSeq(rest, ",") {
		if p == "" {
			continue
		}
		key, value, ok := strings.Cut(p, "=")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			return o, program.Usage("--optimizer %s: %q: want param=number", s, p)
		}
		o.Params[key] = v
	}
	if _, err := optim.New(optim.Config{Name: o.Name, Params: o.Params}); err != nil {
		return o, program.Usage("--optimizer: %w", err)
	}
	return o, nil
}

// worker is the configuration of the client.
func (j *job) worker(log *slog.Logger) error {
	c := j.c
	j.cfg = worker.Config{
		Servers: c.StringSlice("servers"), Cluster: c.String("cluster"), Job: c.String("job"), Worker: c.String("worker"),
		Rank: c.Int("rank"), World: c.Int("world"), Parts: c.Int("parts"), Sum: c.String("reduce") == "sum", Seed: c.Uint64("seed"),
		Deadline: c.Duration("op-timeout"), Logger: log,
	}
	if err := j.codecs(); err != nil {
		return err
	}
	if err := j.mode(); err != nil {
		return err
	}
	if err := j.checkpoints(); err != nil {
		return err
	}
	if j.cfg.Worker == "" {
		j.cfg.Worker = fmt.Sprintf("worker-%d", j.cfg.Rank)
	}
	if err := j.checkNumbers(); err != nil {
		return err
	}
	if err := j.sync(); err != nil {
		return err
	}
	if err := j.name(); err != nil {
		return err
	}
	if len(j.cfg.Servers) == 0 {
		j.cfg.Servers = []string{"embedded"} // replaced when they run
	}
	if err := j.cfg.Validate(); err != nil {
		return &program.UsageError{Err: err}
	}
	return j.connections(log)
}

// codecs reads how gradients and weights travel.
func (j *job) codecs() (err error) {
	if j.cfg.Compress, err = worker.ParseCompression(j.c.String("compress")); err != nil {
		return program.Usage("--compress: %w", err)
	}
	if j.cfg.PullAs = j.c.String("compress-pull"); j.cfg.PullAs != "" {
		return program.OneOf("--compress-pull", j.cfg.PullAs, "off", "fp16", "bf16")
	}
	return nil
}

// sync reads how workers wait for each other.
func (j *job) sync() error {
	c := j.c
	mode, n, bounded := strings.Cut(c.String("sync"), ":")
	if err := program.OneOf("--sync", mode, "bsp", "ssp", "asp"); err != nil {
		return err
	}
	switch mode {
	case "ssp":
		s, err := strconv.Atoi(n)
		if err != nil || s < 0 {
			return program.Usage("--sync %s: want ssp:N, N steps of staleness", c.String("sync"))
		}
		j.cfg.Sync, j.cfg.Staleness = worker.SSP, s
	case "asp":
		j.cfg.Sync = worker.ASP
	}
	if bounded && mode != "ssp" {
		return program.Usage("--sync %s: only ssp takes a staleness", c.String("sync"))
	}
	if j.cfg.Mode != worker.PS && mode != "bsp" {
		return program.Usage("--sync %s: with --mode %v workers are in step", c.String("sync"), j.cfg.Mode)
	}
	return nil
}

// name gives a job without a name one.
func (j *job) name() error {
	c := j.c
	switch {
	case j.cfg.Job != "":
	case j.cfg.Mode == worker.AllReduce && j.cfg.World > 1:
		j.cfg.Job = "job" // where they meet tells them apart from others
	case j.cfg.World > 1:
		return program.Usage("--job is needed when --world is over 1: it is the name the workers share")
	case c.Bool("resume") || c.String("dir") != "" || c.String("checkpoint-dir") != "":
		j.cfg.Job = "job" // what --resume finds again
	default:
		j.cfg.Job = "job-" + strings.ToLower(rand.Text()[:6])
	}
	return nil
}

// connections reads what carries bytes, and who records that.
func (j *job) connections(log *slog.Logger) (err error) {
	c := j.c
	if j.cfg.Bulk, err = program.Bulk(c); err != nil {
		return err
	}
	part := ""
	if j.cfg.World > 1 {
		part = strconv.Itoa(j.cfg.Rank)
	}
	if j.profile, err = program.NewProfile(c, j.cfg.Worker, j.cfg.Rank, part); err != nil {
		return err
	}
	j.cfg.Trace = j.profile.Recorder()
	j.cfg.Network, err = program.Network(c, j.cfg.Cluster, log) // another one is in its place where servers are embedded
	return err
}

// describeData says what decides what a step is, beside the job's numbers: a
// worker resumes on the same only.
func (j *job) describeData() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model %s, ", j.model.Model)
	for _, path := range j.c.StringSlice("data") {
		if st, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%s of %d bytes, ", filepath.Base(path), st.Size())
		}
	}
	fmt.Fprintf(&b, "batches of %d x %d", j.how.Accumulate, j.model.Batch)
	if s := j.c.String("split"); s != "" {
		fmt.Fprintf(&b, ", split %s", s)
	}
	text := b.String()
	return text[max(0, len(text)-wire.MaxData):]
}

// checkNumbers refuses values that nothing else looks at.
func (j *job) checkNumbers() error {
	c := j.c
	switch {
	case c.Int("world") < 1:
		return program.Usage("--world %d: want 1 or more workers", c.Int("world"))
	case c.Int("embedded") < 0:
		return program.Usage("--embedded %d: want 1 or more servers", c.Int("embedded"))
	case c.Duration("step-delay") < 0 || c.Duration("op-timeout") <= 0:
		return program.Usage("--step-delay %v, --op-timeout %v: want no negative delay, and a time above 0", c.Duration("step-delay"), c.Duration("op-timeout"))
	}
	return program.CheckServers(c)
}

// open opens the data and test files; all that is wrong with them is said now.
func (j *job) open(log *slog.Logger) error {
	c := j.c
	cfg, err := dataConfig(c, log)
	if err != nil {
		return err
	}
	if j.prior != nil {
		if err := j.prior.features(c, &cfg); err != nil {
			return err
		}
	}
	cfg.Batch, cfg.Seed = j.model.Batch, c.Uint64("seed")
	test := cfg
	test.InOrder, test.Batch, test.Paths = true, 4096, c.StringSlice("test")
	if s := c.String("split"); s != "" {
		n, err := splitEvery(s)
		if err != nil {
			return err
		}
		if len(test.Paths) > 0 {
			return program.Usage("--split and --test exclude each other")
		}
		cfg.Split = dataset.Split{Every: n}
		test.Split = dataset.Split{Every: n, Test: true}
		test.Paths = cfg.Paths
	}
	if j.data, err = dataset.Open(cfg); err != nil {
		return err
	}
	if len(test.Paths) > 0 {
		test.Schema = j.data.Schema() // with what the training data fitted
		if j.test, err = dataset.Open(test); err != nil {
			return err
		}
		_, err = j.test.Count() // a fault in it is better found now than after training
	}
	return err
}

func (j *job) embed(log *slog.Logger) error {
	c := j.c
	n := c.Int("embedded")
	switch {
	case j.cfg.Mode == worker.AllReduce:
		return nil
	case n == 0 && len(c.StringSlice("servers")) == 0:
		return program.Usage("--servers or --embedded is needed: where the parameters live")
	case n > 0 && len(c.StringSlice("servers")) > 0:
		return program.Usage("--servers and --embedded exclude each other")
	case n == 0:
		return nil
	}
	if err := j.findJob(); err != nil {
		return err
	}
	if replicas := c.Int("replicas"); c.IsSet("replicas") && replicas > 0 {
		if err := layoutFits(n, replicas, 4); err != nil {
			return err
		}
	}
	if c.Int("world") > 1 {
		return program.Usage("--embedded serves this process alone; for %d workers use ps-worker launch", c.Int("world"))
	}
	replicas := c.Int("replicas")
	if !c.IsSet("replicas") {
		replicas = min(replicas, max(n-1+n%2, 1)) // 1 server: 1, 2: 1, 3: 3
	}
	memory, err := program.Bytes("memory", c.String("memory"))
	if err != nil {
		return err
	}
	local, err := ps.NewLocal(ps.LocalConfig{
		Servers: n, Replicas: replicas, Scratch: replicas == 0, Dir: c.String("dir"), Memory: memory, Logger: log, Trace: j.profile.Recorder(),
		Checkpoint: j.saves.servers(), Restore: j.saves.restore, RestoreWorld: j.saves.world(),
	})
	if err != nil {
		return &program.UsageError{Err: fmt.Errorf("--embedded: %w", err)}
	}
	j.local = local
	return nil
}
