package worker

import (
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"

	"hcclps/compress"
	"hcclps/internal/vec"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// coders encode what a worker gives to its tables, and keep what the codes do not hold. Of hybrid, two goroutines of a
// step use them, each the coders of its own tables.
type coders struct {
	worker string
	seed   uint64
	log    *slog.Logger
	room   int // bytes for residuals of rows of a table

	mu     sync.Mutex           // guards all below, but what a coder has
	choice []compress.Candidate // of auto, measured; nil: not yet
	tables map[uint32]*coder    // by id
	waits  map[string]kept      // residuals of tables that are not there yet, by name; see ofSums
}

func newCoders(cfg Config) *coders {
	return &coders{worker: cfg.Worker, seed: cfg.Seed, log: cfg.Logger, room: roomOfRows, tables: map[uint32]*coder{}, waits: map[string]kept{}}
}

// coder is that of one table.
type coder struct {
	spec  wire.Table
	codec compress.Codec
	warm  []compress.Codec // of the first steps, and then of all; none: it is always the same
	auto  *compress.Auto   // chooses the codec; nil: the table says which
	watch watchdog
	dense *compress.Feedback    // of a dense tensor
	rows  *compress.RowFeedback // of an embedding table
	back  *compress.Feedback    // of sums of a dense tensor; nil: none are coded

	step  uint64   // that codes are of
	made  bool     // codes are
	codes [][]byte // by body; nil: it has none

	keys   []uint64 // of a body
	values []float32
}

// roomOfRows is how many bytes of residuals are kept of a table's rows; those that have not come for longest are dropped, which is said once.
const roomOfRows = 256 << 20

// of is the coder of a table, nil where gradients travel as they are.
func (c *coders) of(t *wire.Table) (*coder, error) {
	if t.Compress == "" {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k := c.tables[t.ID]; {
	case k == nil:
	case k.spec.Name == t.Name && elements(&k.spec) == elements(t) && k.spec.Dim == t.Dim:
		return k, nil
	default: // the workers have met, and the table has another number
		c.put(k)
	}
	k, err := newCoder(t, c.room)
	if err == nil && t.Compress == update.Auto {
		k.auto, err = c.chooser()
	}
	if err == nil {
		err = c.restored(k)
	}
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", t.Name, err)
	}
	c.tables[t.ID] = k
	return k, nil
}

func newCoder(t *wire.Table, room int) (*coder, error) {
	name := t.Compress
	if name == update.Auto {
		name = compress.None.String() // to begin with
	}
	codec, err := compress.Parse(name)
	if err != nil {
		return nil, err
	}
	k := &coder{spec: *t, codec: codec}
	if k.warm, err = warmUp(codec); err != nil {
		return nil, err
	}
	if t.Shape != nil {
		k.dense, err = compress.NewFeedback(codec, elements(t))
	} else {
		k.rows, err = compress.NewRowFeedback(codec, int(t.Dim), max(1, room/(4*int(t.Dim)+24)))
	}
	return k, err
}

// seedOf is what a worker's codec draws by at a step.
func (c *coders) seedOf(t *wire.Table, step uint64, rank int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%d/%d", c.seed, t.Name, step, rank)
	return h.Sum64()
}

// check wants a gradient that the codec can hold. Where the table's policy says so, it returns one that is mended; what it is given stays.
func (c *coders) check(k *coder, keys []uint64, values []float32) ([]float32, error) {
	top := compress.Limit(k.codec)
	if vec.MaxAbs(values) <= top {
		return values, nil
	}
	bad := slices.IndexFunc(values, func(v float32) bool { return !(v <= top && v >= -top) })
	if k.spec.NonFinite == update.Reject {
		return nil, &RefusedError{wire.NonFinite, fmt.Sprintf("worker %q: table %q, key %d: the gradient is %v, and %s holds up to %v", c.worker, k.spec.Name, keys[bad/int(k.spec.Dim)], values[bad], k.codec, top)}
	}
	values = slices.Clone(values)
	update.Mend(values, k.spec.NonFinite, top)
	return values, nil
}

// passed is a gradient's values as its coder takes them; one that none takes passes as it is.
func (c *coders) passed(g Gradient) ([]float32, error) {
	k, err := c.of(g.Table.spec())
	if k == nil || err != nil {
		return g.Values, err
	}
	keys, err := g.rowsOf()
	if err != nil {
		return nil, err
	}
	return c.check(k, keys, g.Values)
}

// begin says whether the codes of a step are to be made, for so many bodies. They are made once.
func (k *coder) begin(step uint64, bodies int) bool {
	if k.made && k.step == step && len(k.codes) == bodies {
		return false
	}
	if len(k.codes) != bodies {
		k.codes = make([][]byte, bodies)
	}
	k.step, k.made = step, true
	if len(k.warm) > 0 {
		k.use(k.warm[min(step*uint64(len(k.warm))/warmSteps, uint64(len(k.warm)-1))])
	}
	return true
}

// Codecs that send a share send more of it in the first steps, when gradients change most (Lin et al. 2018, Deep
// Gradient Compression): a quarter, then a quarter of that, and so on down to the share, each for a part of so many
// steps.
const (
	warmSteps = 256
	warmShare = 0.25
)

// warmUp are the codecs of the first steps, and then of all: none if it is always the same.
func warmUp(c compress.Codec) ([]compress.Codec, error) {
	kind := compress.KindOf(c)
	if kind != compress.TopK && kind != compress.RandomK {
		return nil, nil
	}
	var all []compress.Codec
	last := compress.Share(c)
	for share := warmShare; share > last; share /= 4 {
		w, err := compress.Parse(fmt.Sprintf("%s:%g", kind, share))
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return append(all, c), nil
}

// use makes a codec that of the step.
func (k *coder) use(c compress.Codec) {
	if k.codec == c {
		return
	}
	k.codec = c
	if k.dense != nil {
		k.dense.Switch(c)
		return
	}
	k.rows.Switch(c)
}

// encode makes the code of the rows at some positions, for one of the bodies, where rows are of a gradient that check has passed.
func (k *coder) encode(body int, keys []uint64, values []float32, at []int32, seed uint64) error {
	var err error
	dst := k.codes[body][:0]
	if k.dense != nil {
		k.codes[body], err = k.dense.AppendRows(dst, values, int(k.spec.Dim), at, seed)
		return k.failed(err)
	}
	dim := int(k.spec.Dim)
	k.keys, k.values = k.keys[:0], k.values[:0]
	for _, i := range at {
		k.keys = append(k.keys, keys[i])
		k.values = append(k.values, values[int(i)*dim:][:dim]...)
	}
	k.codes[body], err = k.rows.AppendFrame(dst, k.keys, k.values, seed)
	return k.failed(err)
}

// failed says what an encoder's error means. The codes are of no use then.
func (k *coder) failed(err error) error {
	if err == nil {
		return nil
	}
	k.made = false
	if errors.Is(err, compress.ErrNotFinite) {
		return &RefusedError{wire.NonFinite, fmt.Sprintf("table %q: gradient and residual: %v", k.spec.Name, err)}
	}
	return fmt.Errorf("table %q: %w", k.spec.Name, err)
}

// backOf is the residual of a tensor's sums.
func (c *coders) backOf(k *coder) (*compress.Feedback, error) {
	if k.back != nil {
		return k.back, nil
	}
	var err error
	if k.back, err = compress.NewFeedback(k.codec, elements(&k.spec)); err != nil {
		return nil, fmt.Errorf("table %q: %w", k.spec.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.back, c.restored(k)
}
