package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

// prior is the model that --load names: a saved one, a checkpoint or an export.
type prior struct {
	dir     string
	bare    bool // tensors without a description: the flags say of what model they are
	options model.Options
	schema  *dataset.Schema
}

// readPrior says what model a folder holds.
func readPrior(ctx context.Context, dir string) (*prior, error) {
	m, err := worker.ReadModel(ctx, dir)
	if err != nil {
		return nil, err
	}
	p := &prior{dir: dir, bare: m.About.Options == nil && m.Exported(), schema: m.About.Schema}
	if p.bare {
		return p, nil
	}
	if id := m.Checkpoint(); m.About.Options == nil && id > 0 {
		return nil, fmt.Errorf("read model %s: checkpoint %d does not say how it was made: no ps-worker train was running then to say it, and no older one of job %s there does; "+
			"ps-worker export --slots writes it as tensors, and train --load goes on with these, with the flags that the job had", dir, id, m.Job)
	}
	if m.About.Options == nil {
		return nil, fmt.Errorf("read model %s: it does not say how it was made: was it saved by a program of your own?", dir)
	}
	if err := json.Unmarshal(m.About.Options, &p.options); err != nil {
		return nil, fmt.Errorf("read options of model %s: %w", dir, err)
	}
	return p, nil
}

// describe names the model, its size and its optimizer.
func describe(o model.Options) string {
	return fmt.Sprintf("%s (dim %d, %s)", o.Model, o.Dim, describeRule(o.Optimizer))
}

// describeRule writes an optimizer as --optimizer and --schedule take it.
func describeRule(o worker.Optimizer) string {
	var params []string
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		params = append(params, fmt.Sprintf("%s=%v", name, o.Params[name]))
	}
	text := o.Name
	if len(params) > 0 {
		text += ":" + strings.Join(params, ",")
	}
	if o.Schedule.Kind != "" {
		text += ", schedule " + o.Schedule.Kind
	}
	return text
}

// agrees refuses options that the tables of the saved model do not have.
func (p *prior) agrees(o model.Options) error {
	same := func(a, b worker.Optimizer) bool {
		return a.Name == b.Name && maps.Equal(a.Params, b.Params) && reflect.DeepEqual(a.Schedule, b.Schedule)
	}
	switch was := p.options; {
	case o.Model != was.Model:
		return fmt.Errorf("%s is a model %s, --model says %s: leave --model out to go on with it", p.dir, describe(was), o.Model)
	case o.Dim != was.Dim:
		return fmt.Errorf("%s is a model %s, --dim says %d: leave --dim out to go on with it", p.dir, describe(was), o.Dim)
	case !same(o.Optimizer, was.Optimizer), !same(o.Dense, was.Dense):
		return fmt.Errorf("%s is a model %s, --optimizer, --lr and --schedule say %s: what the optimizer remembers is part of the model: leave them out to go on with it",
			p.dir, describe(was), describeRule(o.Optimizer))
	case o.Admit != was.Admit, o.Evict != was.Evict:
		return fmt.Errorf("%s is a model with --admit %q and --evict %q, not %q and %q: leave them out to go on with it", p.dir, was.Admit, was.Evict, o.Admit, o.Evict)
	}
	return nil
}

// features makes the data be read as the model was trained, and refuses flags
// that say otherwise.
func (p *prior) features(c *cli.Context, cfg *dataset.Config) error {
	if p.schema == nil {
		return nil
	}
	if n := c.Int("hash-bits"); c.IsSet("hash-bits") && n != p.schema.HashBits {
		return program.Usage("--hash-bits %d: model %s was trained with %d (0: none): leave it out", n, p.dir, p.schema.HashBits)
	}
	if cfg.Schema == nil {
		cfg.Schema = p.schema
		return nil
	}
	if c.IsSet("hash-bits") {
		cfg.Schema.HashBits = cfg.HashBits
	}
	if err := cfg.Schema.Continue(p.schema); err != nil {
		return fmt.Errorf("--features %s and model %s: %w: leave --features out to read the data as in training", c.String("features"), p.dir, err)
	}
	return nil
}
