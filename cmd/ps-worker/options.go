package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/worker"
)

// trainingFlags say how to train.
func trainingFlags() []cli.Flag {
	env := program.Env
	return []cli.Flag{
		&cli.IntFlag{Name: "accumulate", Value: 1, Usage: "batches whose gradients are one push", EnvVars: env("accumulate")},
		&cli.IntFlag{Name: "delay", Usage: "allreduce: 1 computes the next batch while the gradients of this one are on their way", EnvVars: env("delay")},
		&cli.StringFlag{Name: "schedule", Usage: "how the learning rate changes: constant, linear, cosine, step or inverse_sqrt[:warmup=N,steps=N,floor=F,decay=D]", EnvVars: env("schedule")},
		&cli.StringFlag{Name: "compress", Usage: "how gradients travel: off, bf16, fp16, int8, twobit, onebit, topk[:SHARE], randomk[:SHARE] or auto, for all tables, or TABLE=CODEC,...; adam goes with int8, amsgrad and lazy_adam also with onebit, and onebit_adam sends momenta; default: off, or with --load the model's own", EnvVars: env("compress")},
		&cli.StringFlag{Name: "admit", Usage: "which keys get rows: count:N, at their Nth sighting; bloom:N[,BITS], about so, in 2^BITS bytes; prob:P, by chance; default: all", EnvVars: env("admit")},
		&cli.StringFlag{Name: "evict", Usage: "which rows go, with commas between rules: ttl:24h, ttl:1000steps, lfu:STEPS, l2:NORM, rows:N, bytes:N; default: none", EnvVars: env("evict")},
		&cli.StringFlag{Name: "compress-pull", Usage: "how weights come from servers while training: off, fp16 or bf16; default: off", EnvVars: env("compress-pull")},
		&cli.StringFlag{Name: "clip", Usage: "bounds of a step's gradient: norm=X, value=Y, or both with a comma; default: none", EnvVars: env("clip")},
		&cli.IntFlag{Name: "eval-every", Usage: "evaluate on the test part every `N` steps", EnvVars: env("eval-every")},
		&cli.StringFlag{Name: "early-stop", Usage: "METRIC[:patience=N,min-delta=D]: stop when it gets no better", EnvVars: env("early-stop")},
		&cli.BoolFlag{Name: "keep-best", Usage: "--save keeps the model of the best evaluation, not the last", EnvVars: env("keep-best")},
		&cli.StringSliceFlag{Name: "metrics", Usage: "what is measured on the test part beside the usual: prauc, gauc:user, hr@10:user, ...", EnvVars: env("metrics")},
		&cli.StringFlag{Name: "save", Usage: "write the model to `DIR` at the end", EnvVars: env("save")},
		&cli.StringFlag{Name: "load", Usage: "begin with the model in `DIR`, with its newest checkpoint there, or DIR@ID, or with tensors (safetensors)", EnvVars: env("load")},
	}
}

// training reads the flags of trainingFlags.
func (j *job) training() (worker.TrainOptions, error) {
	c := j.c
	o := worker.TrainOptions{
		Epochs: j.model.Epochs, NoPrefetch: !c.Bool("prefetch"), Accumulate: c.Int("accumulate"), CheckpointEvery: j.saves.every,
		Delay: c.Int("delay"), EvalEvery: c.Int("eval-every"), Metrics: c.StringSlice("metrics"),
	}
	if o.Accumulate < 1 || o.EvalEvery < 0 {
		return o, program.Usage("--accumulate %d, --eval-every %d: want 1 or more batches, and no negative number of steps", o.Accumulate, o.EvalEvery)
	}
	if o.Delay < 0 || o.Delay > 1 || o.Delay > 0 && j.cfg.Mode != worker.AllReduce {
		return o, program.Usage("--delay %d: want 0, or 1 with --mode allreduce", o.Delay)
	}
	if err := checkMetrics("--metrics", j.data.Schema(), o.Metrics...); err != nil {
		return o, err
	}
	if o.EvalEvery > 0 && j.test == nil {
		return o, program.Usage("--eval-every needs --test or --split: what to evaluate on")
	}
	if c.IsSet("early-stop") && o.EvalEvery == 0 {
		return o, program.Usage("--early-stop needs --eval-every: how often to look")
	}
	if c.Bool("keep-best") {
		if c.String("save") == "" || o.EvalEvery == 0 {
			return o, program.Usage("--keep-best needs --save and --eval-every")
		}
		o.KeepBest = c.String("save")
	}
	if o.EvalEvery > 0 && (j.cfg.Rank == 0 || j.cfg.Mode != worker.PS) { // there another may be rank 0 one day
		o.EvalOn = j.test
	}
	var err error
	if o.Clip.Norm, o.Clip.Value, err = clip(c.String("clip")); err != nil {
		return o, err
	}
	if o.EarlyStop, err = earlyStop(c.String("early-stop")); err != nil {
		return o, err
	}
	o.About, err = j.about()
	return o, err
}

// about is what a saved model says of itself.
func (j *job) about() (worker.About, error) {
	b, err := json.Marshal(j.model)
	if err != nil {
		return worker.About{}, fmt.Errorf("describe model: %w", err)
	}
	return worker.About{Model: j.model.Model, Options: b, Schema: j.data.Schema()}, nil
}

func clip(s string) (norm, value float64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	err = settings("clip", s, map[string]*float64{"norm": &norm, "value": &value})
	return norm, value, err
}

func earlyStop(s string) (worker.EarlyStop, error) {
	name, rest, _ := strings.Cut(s, ":")
	patience, delta := 3.0, 0.0
	if err := settings("early-stop", rest, map[string]*float64{"patience": &patience, "min-delta": &delta}); err != nil || s == "" {
		return worker.EarlyStop{}, err
	}
	if err := worker.CheckMetric(name); err != nil {
		return worker.EarlyStop{}, program.Usage("--early-stop: %w", err)
	}
	return worker.EarlyStop{Metric: name, Patience: int(patience), MinDelta: delta}, nil
}

// schedule reads KIND[:warmup=N,steps=N,floor=F,decay=D].
func schedule(s string) (worker.Schedule, error) {
	kind, rest, _ := strings.Cut(s, ":")
	var warmup, steps float64
	o := worker.Schedule{Kind: kind}
	err := settings("schedule", rest, map[string]*float64{"warmup": &warmup, "steps": &steps, "floor": &o.Floor, "decay": &o.Decay})
	if err != nil || s == "" {
		return worker.Schedule{}, err
	}
	if err := program.OneOf("--schedule", kind, "constant", "linear", "cosine", "step", "inverse_sqrt"); err != nil {
		return o, err
	}
	o.Warmup, o.Steps = uint64(warmup), uint64(steps)
	if err := o.Validate(); err != nil {
		return o, program.Usage("--schedule %s: %w", s, err)
	}
	return o, nil
}

// settings reads name=number,... into the given places.
func settings(flag, s string, into map[string]*float64) error {
	for p := range strings.SplitSeq(s, ",") {
		if p == "" {
			continue
		}
		name, value, ok := strings.Cut(p, "=")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || !(v >= 0) || math.IsInf(v, 1) || into[name] == nil {
			var names []string
			for n := range into {
				names = append(names, n)
			}
			return program.Usage("--%s: %q: want name=number with one of %s", flag, p, program.Sorted(names))
		}
		*into[name] = v
	}
	return nil
}
