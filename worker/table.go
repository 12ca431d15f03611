package worker

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"hcclps/ps/optim"
	"hcclps/ps/wire"
)

// Optimizer is an update rule by name, with the hyper-parameters that differ
// from its defaults.
type Optimizer struct {
	Name     string // one of ps/optim; "adagrad". onebit_adam is for dense tensors of AllReduce and Hybrid
	Params   map[string]float64
	Schedule Schedule // of the learning rate, step by step; zero: constant
}

// Schedule is how a learning rate changes from step to step: warm-up, then
// constant, linear, cosine, step or inverse_sqrt. It is part of a table's
// description. ScaleRate multiplies what it says.
type Schedule = wire.Schedule

// Admit says which keys get a row: all, or those seen a number of times (count exactly, bloom about so), or by chance. ParseAdmit reads one.
type Admit = wire.Admit

// Evict says which rows are given up: unused for a time or a number of steps, seldom used, small, or too many. ParseEvict reads one.
type Evict = wire.Evict

// ParseAdmit reads count:N, bloom:N[,BITS] or prob:P.
func ParseAdmit(s string) (Admit, error) {
	a, err := wire.ParseAdmit(s)
	return a, nearestKind(err, s, wire.AdmitKinds())
}

// ParseEvict reads rules with commas between them: ttl:24h, ttl:1000steps, lfu:STEPS, l2:NORM, rows:N, bytes:N.
func ParseEvict(s string) (Evict, error) {
	e, err := wire.ParseEvict(s)
	return e, nearestKind(err, s, wire.EvictKinds())
}

// nearestKind names, with a fault in rules, the nearest kind to the first that there is none of.
func nearestKind(err error, rules string, kinds []string) error {
	if err == nil {
		return nil
	}
	for rule := range strings.SplitSeq(rules, ",") {
		kind, _, _ := strings.Cut(rule, ":")
		if _, number := strconv.ParseFloat(kind, 64); number == nil || kind == "" || slices.Contains(kinds, kind) {
			continue // a number: the bits of a bloom
		}
		return fmt.Errorf("%w; nearest to %q is %s", err, kind, optim.Nearest(kind, kinds))
	}
	return err
}

// Init is an initializer by name, with its parameters: zeros, constant(value),
// uniform(low, high), normal(mean, std), and others of ps/table.
type Init struct {
	Name   string // "zeros"
	Params map[string]float64
}

// EmbeddingSpec describes an embedding table.
type EmbeddingSpec struct {
	Dim       int // float32 a row; 1
	Init      Init
	Optimizer Optimizer
	NonFinite string // what a NaN or infinite gradient does: reject (default), zero, clip
	Compress  string // how gradients travel, by the name of a codec; "": as Config.Compress says
	Admit     Admit  // which keys get a row
	Evict     Evict  // which rows are given up
}

// DenseSpec describes a dense tensor.
type DenseSpec struct {
	Init      Init
	Optimizer Optimizer
	NonFinite string
	Compress  string
}

// Embedding is a table of rows of Dim floats, keyed by any uint64.
type Embedding struct{ *handle }

// Dense is a named tensor.
type Dense struct {
	*handle
	Shape []int
}

// Table is an Embedding or a Dense.
type Table interface{ spec() *wire.Table }

// handle is that of both: what the servers agreed on.
type handle struct{ wire.Table }

func newTable(t wire.Table) *handle { return &handle{t} }
func (t *handle) spec() *wire.Table { return &t.Table }

func dense(t Table) bool   { return t.spec().Shape != nil }
func same(a, b Table) bool { return a.spec().ID == b.spec().ID }

// elements is the length of a dense tensor.
func elements(t *wire.Table) int {
	n := 1
	for _, d := range t.Shape {
		n *= int(d)
	}
	return n
}

// blocks is the number of rows a dense tensor is stored as.
func blocks(t *wire.Table) int { return (elements(t) + int(t.Dim) - 1) / int(t.Dim) }

// Embedding creates a table, or finds it; a differing description is an error
// that shows both. It is in force on every shard when Embedding returns.
func (c *Client) Embedding(ctx context.Context, name string, s EmbeddingSpec) (Embedding, error) {
	t, err := c.create(ctx, wire.Table{Name: name, Dim: uint32(max(s.Dim, 1)), Admit: s.Admit, Evict: s.Evict}, s.Init, s.Optimizer, s.NonFinite, s.Compress)
	return Embedding{t}, err
}

// Dense creates a tensor of the given shape, or finds it.
func (c *Client) Dense(ctx context.Context, name string, shape []int, s DenseSpec) (Dense, error) {
	if len(shape) == 0 {
		return Dense{}, fmt.Errorf("create dense %q: no shape", name)
	}
	w := wire.Table{Name: name}
	n := 1
	for _, d := range shape {
		if d < 1 {
			return Dense{}, fmt.Errorf("create dense %q: shape %v", name, shape)
		}
		w.Shape = append(w.Shape, uint32(d))
		n *= d
	}
	w.Dim = uint32(min(n, wire.Block))
	t, err := c.create(ctx, w, s.Init, s.Optimizer, s.NonFinite, s.Compress)
	return Dense{t, append([]int(nil), shape...)}, err
}

func (c *Client) create(ctx context.Context, w wire.Table, init Init, opt Optimizer, nonFinite, codec string) (*handle, error) {
	var err error
	if w.Compress, err = c.cfg.Compress.of(w.Name, codec); err != nil {
		return nil, fmt.Errorf("create table %q: %w", w.Name, err)
	}
	w.Init, w.InitParams, w.Optimizer, w.Params, w.NonFinite = init.Name, init.Params, opt.Name, opt.Params, nonFinite
	if w.Init == "" {
		w.Init = "zeros"
	}
	if w.Optimizer == "" {
		w.Optimizer = "adagrad"
	}
	if w.NonFinite == "" {
		w.NonFinite = "reject"
	}
	w.Schedule = opt.Schedule
	w.Seed = tableSeed(c.params.Seed, w.Name)
	if known := c.tables[w.Name]; known != nil {
		w.Seed = known.Seed // a loaded table keeps the initial rows of where it comes from
		if codec == "" && !c.cfg.Compress.names(w.Name) {
			w.Compress = known.Compress
		}
	}
	return c.agree(ctx, w, c.cfg.Compress.said(w.Name, codec))
}

// agree creates a table as described, or finds it. codec is what was asked for, in its own words.
func (c *Client) agree(ctx context.Context, w wire.Table, codec string) (*handle, error) {
	if err := momentumCodec(&w, codec); err != nil {
		return nil, fmt.Errorf("create table %q: %w", w.Name, err)
	}
	made, err := c.store.agree(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("create table %q: %w", w.Name, err)
	}
	t := newTable(made)
	c.tables[made.Name] = t
	return t, nil
}

// agree implements store.
func (s *servers) agree(ctx context.Context, w wire.Table) (made wire.Table, err error) {
	err = s.control(ctx, fmt.Sprintf("create table %q", w.Name), wire.KindTable, wire.TableRequest{SessionRef: s.ref(), Table: w}, &made)
	return made, err
}

// tableSeed gives every table of a job its own initial rows.
func tableSeed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s", seed, name)
	return h.Sum64()
}
