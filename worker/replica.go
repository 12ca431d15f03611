package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync"

	"hcclps/p2p/collective"
	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// replica is the store of parameters that every worker of a job holds itself. All of them apply the same steps, in the same way as a shard of
// a server does, and so have the same bits.
type replica struct {
	cfg      Config
	log      *slog.Logger
	counters *counters
	waits    *waits
	peers    *peers // nil: there is no other worker
	reducer  update.Reducer
	reader   update.Reducer // of coded bodies
	coders   *coders
	codec    uint8    // what rank 0 has proposed for tables that leave the codec to workers, by its number in automatic
	squeeze  *squeeze // of the tables and workers there are; nil: not yet known
	pending  *flight  // the step on its way; nil: none
	flights  sync.WaitGroup
	delay    uint64 // steps that reads may lag, and steps may be on their way when push returns
	early    departures
	order    []uint32 // dense tensors that are summed by AllReduce, in the order in which that is done

	terms  []term                                                                         // what all workers have to have alike
	roster []card                                                                         // the workers of this epoch, by rank; nil: they have not met
	owed   []card                                                                         // lost ones that the servers may wait for still
	mine   func() (incarnation, first uint64)                                             // hybrid: this worker's session at the servers, and the step from which on these want it
	expel  func(ctx context.Context, worker string, incarnation uint64, why string) error // hybrid: the servers are not to wait for a worker
	open   uint64                                                                         // hybrid: the step under way, plus 1
	from   uint64                                                                         // hybrid: from this step on the data is dealt over the workers of this epoch

	adopt    func(wire.Table) // tells the client of a table as it is now
	met      bool             // all workers have the same parameters
	rebuilds int              // after workers were lost
	cursor   []byte           // the data position after the last step, of rank 0

	saver        *saver // nil: there is no folder for checkpoints
	cuts         []uint64
	about        About
	residuals    func() ([]byte, error) // what codecs hold back
	putResiduals func([]byte) error     // adds to that
	budget       *table.Budget          // of copies for checkpoints

	stop    uint64 // no step from here on
	wish    wire.Plan
	later   wire.Plan       // goes after wish
	rates   []wire.RateFrom // ascending
	applied uint64          // (worker, step) ever
	loaded  uint64          // the load that the parameters come from; 0: none

	mu     sync.RWMutex
	tables []*held       // ascending id
	lastID uint32        // that was given to one
	schema uint64        // a digest of what they are
	clock  uint64        // steps applied
	moved  chan struct{} // closed and replaced when clock moves
}

// held is a table of a replica.
type held struct {
	*update.Table
	keys []uint64  // of a dense tensor: its blocks
	sum  []float32 // of a dense tensor: the gradient of a step, whole blocks
	laid []byte    // sum in its place behind that of another tensor; nil: it is apart

	union collective.Sparse // of an embedding: rows that were summed on their way
}

// denseIDs is above the ids that servers give to tables.
const denseIDs = 1 << 30

func newReplica(cfg Config, w *waits, n *counters, k *coders) *replica {
	r := &replica{coders: k, cfg: cfg, log: cfg.Logger, counters: n, waits: w, stop: wire.Infinity, moved: make(chan struct{}), budget: table.NewBudget(0)}
	if cfg.Mode == Hybrid {
		r.lastID = denseIDs
	}
	return r
}

// agree implements store. Whether the others have the same tables is found out with the first step.
func (r *replica) agree(_ context.Context, w wire.Table) (wire.Table, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tables {
		if t.Spec.Name != w.Name {
			continue
		}
		if w.ID = t.Spec.ID; describe(w) != describe(t.Spec) {
			return w, fmt.Errorf("it exists as %s, not as %s", describe(t.Spec), describe(w))
		}
		return t.Spec, nil
	}
	r.lastID++
	w.ID = r.lastID
	t, err := r.newHeld(w)
	if err != nil {
		return w, err
	}
	r.hold(append(r.tables, t))
	return w, nil
}

// hold makes these the tables; the lock is held.
func (r *replica) hold(tables []*held) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%t %d %d %q", r.cfg.Sum, r.cfg.Seed, r.cfg.Parts, r.cfg.Data)
	for _, t := range tables {
		_, _ = io.WriteString(h, describe(t.Spec)) // a hash takes everything
	}
	r.tables, r.schema = tables, h.Sum64()
}

func (r *replica) newHeld(w wire.Table) (*held, error) {
	t, err := update.New(w, update.Config{Budget: r.budget, Momenta: true})
	if err != nil {
		return nil, err
	}
	h := &held{Table: t}
	if w.Shape != nil {
		h.keys = blockKeys(&h.Spec)
		h.sum = make([]float32, len(h.keys)*int(w.Dim))
	}
	return h, nil
}

// describe is all that two workers must agree on of a table.
func describe(w wire.Table) string { return fmt.Sprintf("%+v", w) }

// table finds a table by its id.
func (r *replica) table(id uint32) *held {
	i, ok := slices.BinarySearchFunc(r.tables, id, func(t *held, id uint32) int { return cmp.Compare(t.Spec.ID, id) })
	if !ok {
		return nil
	}
	return r.tables[i]
}

// rank is this worker's number.
func (r *replica) rank() int {
	if r.peers == nil {
		return 0
	}
	return r.peers.world.Rank()
}

// plan implements store: it travels with the next step.
func (r *replica) plan(_ context.Context, _ string, p wire.Plan) (uint64, error) {
	if p.Kind == wire.PlanRate && (!(p.Rate >= 0) || math.IsInf(float64(p.Rate), 0)) {
		return 0, fmt.Errorf("rate %v: want a finite number, not negative", p.Rate)
	}
	ahead, at := uint64(planAhead), &r.wish
	if r.wish.Kind != 0 {
		ahead, at = planAhead+1, &r.later
	}
	if at.Kind != 0 {
		return 0, errors.New("two plans wait for the next steps: one a step")
	}
	if p.T == 0 {
		p.T = r.now() + ahead
	}
	*at = p
	return p.T, nil
}

// finish implements store. All workers take the same steps, so nobody waits for one that has finished.
func (r *replica) finish(ctx context.Context, _ uint64) error {
	return r.settle(ctx)
}

// audit implements store.
func (r *replica) audit(context.Context) (Audit, error) {
	a := Audit{Batches: r.applied, Applied: r.applied}
	if r.peers != nil {
		a.Rebuilds = int(r.peers.world.Epoch()) - 1
	}
	return a, nil
}

// close implements store.
func (r *replica) close(context.Context, bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, t := range r.tables {
		errs = append(errs, t.Close())
	}
	r.tables = nil
	return errors.Join(errs...)
}

// now is the number of steps applied.
func (r *replica) now() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.clock
}

// moveTo lets those go on who wait for a step.
func (r *replica) moveTo(clock uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = clock
	close(r.moved)
	r.moved = make(chan struct{})
}
