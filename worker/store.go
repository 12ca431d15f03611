package worker

import (
	"context"
	"time"

	"hcclps/ps/wire"
)

// store is where the parameters of a job are: on servers, or in this process and in each of the other workers. A client calls it from one
// goroutine at a time, but for the reads that it has got ready.
type store interface {
	// agree creates a table as described, or finds it. What all workers have agreed on comes back.
	agree(ctx context.Context, w wire.Table) (wire.Table, error)
	// read gets a read ready.
	read(reads []Read) (reader, error)
	// push applies the step of this worker, together with those of others as the job's Sync says.
	push(ctx context.Context, s *commit) (outcome, error)
	// finish says that this worker has completed its last step.
	finish(ctx context.Context, steps uint64) error
	// scan visits the rows of a table that were ever pushed to, by ascending key.
	scan(ctx context.Context, t *wire.Table, visit func(wire.Row) error) error
	// rule is what a table's optimizer remembers.
	rule(ctx context.Context, t *wire.Table) (wire.RuleState, error)
	// load brings the rows of a model into tables that were agreed on.
	load(ctx context.Context, m *Manifest) error
	// plan brings a rate or a stop into force, from the step on that it returns.
	plan(ctx context.Context, what string, p wire.Plan) (uint64, error)
	// audit counts what was applied.
	audit(ctx context.Context) (Audit, error)
	// close ends this worker's part in the job.
	close(ctx context.Context, finished bool) error
}

// reader is a read that was got ready. It is run once.
type reader interface {
	// run fills what was asked for with the parameters as of a step, wire.Infinity being the end of the job. until hears when other
	// workers were there, nil: nobody asks.
	run(ctx context.Context, step uint64, until *latest) error
}

// commit is what a worker has to say of one step.
type commit struct {
	step   uint64
	rows   int    // of data behind the gradients
	cursor []byte // the data position after them
	grads  []Gradient
	loss   loss
}

// loss is a sum over rows.
type loss struct {
	sum  float64
	rows int
}

func (l loss) mean() float64 {
	if l.rows == 0 {
		return 0
	}
	return l.sum / float64(l.rows)
}

// outcome is what a step was, of all workers as far as the store knows.
type outcome struct {
	loss   loss
	others time.Time // when other workers were there

	checkpoint uint64 // that waits for what this worker has after the step; 0: none does
	later      uint64 // one of a later step
}
