// Package model holds the built-in models, one readable file each.
//
// New makes a model by name from the schema of the data: it creates the model's
// tables in the client's job, or finds them. Client.Train and Client.Evaluate
// call its Step.
//
//	m, err := model.New(ctx, c, reader.Schema(), model.Options{Model: "deepfm"})
//	rep, err := c.Train(ctx, m, reader, worker.TrainOptions{Epochs: model.Defaults("deepfm").Epochs})
//
// # What the models make of a schema
//
// A sparse feature reads the embedding table that the schema names, features of
// one table share its rows, and a bag of several ids is pooled as the schema
// says: by their sum, or by the mean for a sequence, if it says nothing. In lr,
// fm, deepfm, widedeep and mf the first float of a row is the weight of the id,
// and the vector of Dim floats comes after it (lr has the weight alone, in tables
// of its own, lr.weight.TABLE). A numeric feature (raw, log, standard) has a
// weight in the linear part, and is an input of the deep part. The data's row
// weights multiply loss and gradients.
//
// Scores are probabilities, but mf's, which are ratings.
//
// # Goroutines
//
// The package starts none. A model keeps memory from step to step and belongs,
// like its client, to one goroutine at a time.
package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// The names of the models.
const (
	NameLR       = "lr"       // logistic regression
	NameFM       = "fm"       // factorisation machine
	NameDeepFM   = "deepfm"   // fm and a deep network over the same embeddings
	NameWideDeep = "widedeep" // lr and a deep network
	NameDLRM     = "dlrm"     // dot products of embeddings, between two networks
	NameMF       = "mf"       // biased matrix factorisation of ratings
	NameTwoTower = "twotower" // dot product of a user's and an item's network
)

// Names returns the names of the models.
func Names() []string {
	return []string{NameLR, NameFM, NameDeepFM, NameWideDeep, NameDLRM, NameMF, NameTwoTower}
}

// Options says which model, and of what size. Zero values are those of
// Defaults.
type Options struct {
	Model     string           // one of Names
	Dim       int              // floats of a vector; that of a table in the schema wins
	Hidden    []int            // units of the hidden layers of a deep part, input first
	User      []string         // features of the user's side, in mf and twotower; default: the first sparse one. The others are the item's
	Optimizer worker.Optimizer // of the embedding tables
	Dense     worker.Optimizer // of all else; default: Optimizer, if that is given
	Admit     worker.Admit     `json:",omitzero"` // of the embedding tables
	Evict     worker.Evict     `json:",omitzero"` // likewise
	Epochs    int              // how long to train; for the caller, New does not look at it
	Batch     int              // rows of a batch; likewise
}

// Defaults returns the options that suit a model on data of any kind; none for
// an unknown name. They were chosen on parts of the training rows of a9a, adult,
// coupon and MovieTweetings held back for that.
//
// An accumulator that begins near zero makes a row's first steps as long as the
// learning rate, however seldom its id comes: without it rare ids learn nothing.
// mf begins with a large one, which keeps its vectors behind its biases.
func Defaults(model string) Options {
	adagrad := func(lr, decay float64) worker.Optimizer {
		return worker.Optimizer{Name: "adagrad", Params: map[string]float64{"lr": lr, "initial_accumulator": 1e-6, "weight_decay": decay}}
	}
	o := Options{Model: model, Dim: 16, Epochs: 5, Batch: 256}
	switch model {
	case NameLR:
		o.Dim, o.Optimizer = 0, adagrad(0.2, 0)
	case NameFM:
		o.Optimizer, o.Epochs = adagrad(0.03, 0), 10
	case NameDeepFM:
		o.Optimizer, o.Epochs = adagrad(0.02, 5e-4), 8
	case NameWideDeep, NameDLRM, NameTwoTower:
		o.Optimizer = adagrad(0.02, 5e-4)
	case NameMF:
		o.Optimizer, o.Epochs = adagrad(1, 1e-3), 10
		o.Optimizer.Params["initial_accumulator"] = 0.1
		o.Dense = worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.05}}
	default:
		return Options{}
	}
	if model == NameDeepFM || model == NameWideDeep || model == NameDLRM || model == NameTwoTower {
		o.Hidden = []int{64, 32}
	}
	if o.Dense.Name == "" {
		o.Dense = o.Optimizer
	}
	return o
}

// withDefaults fills in what is not given.
func (o Options) withDefaults(model string) Options {
	d := Defaults(model)
	o.Model = model
	o.Dim, o.Epochs, o.Batch = cmp.Or(o.Dim, d.Dim), cmp.Or(o.Epochs, d.Epochs), cmp.Or(o.Batch, d.Batch)
	if o.Hidden == nil {
		o.Hidden = d.Hidden
	}
	if o.Dense.Name == "" && o.Optimizer.Name != "" {
		o.Dense = o.Optimizer
	}
	o.Optimizer, o.Dense = named(o.Optimizer, d.Optimizer), named(o.Dense, d.Dense)
	return o
}

// named is o, or if that has no name the default d with the schedule of o.
func named(o, d worker.Optimizer) worker.Optimizer {
	if o.Name == "" {
		o.Name, o.Params = d.Name, d.Params
	}
	return o
}

// New makes the model that o names, for data of the given schema (nil: that of
// a libsvm file). An unknown name is an error with the nearest one.
func New(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (worker.Model, error) {
	return build(ctx, newStore(c, o.withDefaults(o.Model)), schema)
}

// build is New on a store.
func build(ctx context.Context, st *store, schema *dataset.Schema) (worker.Model, error) {
	switch st.o.Model {
	case NameLR:
		return newLR(ctx, st, schema)
	case NameFM:
		return newFM(ctx, st, schema)
	case NameDeepFM:
		return newDeepFM(ctx, st, schema)
	case NameWideDeep:
		return newWideDeep(ctx, st, schema)
	case NameDLRM:
		return newDLRM(ctx, st, schema)
	case NameMF:
		return newMF(ctx, st, schema)
	case NameTwoTower:
		return newTwoTower(ctx, st, schema)
	default:
		return nil, fmt.Errorf("make model: unknown name %q: nearest is %q of %s", st.o.Model, nearest(st.o.Model), strings.Join(Names(), ", "))
	}
}

// nearest is the model whose name shares the most letters, in their order, with what
// was asked for.
func nearest(name string) string {
	name = strings.ToLower(name)
	likeness := func(model string) float64 {
		return 2 * float64(shared(name, model)) / float64(len(name)+len(model))
	}
	return slices.MaxFunc(Names(), func(a, b string) int { return cmp.Compare(likeness(a), likeness(b)) })
}

// shared is the length of the longest common subsequence of a and b.
func shared(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range len(a) {
		diagonal := 0
		for j := range len(b) {
			above := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}
