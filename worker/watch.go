package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// EarlyStop ends training when evaluations no longer get better.
type EarlyStop struct {
	Metric   string  // see Metrics; default logloss, or rmse for a model of values
	Patience int     // evaluations in a row without improvement that end training; 0: never
	MinDelta float64 // an improvement is more than this
}

// watch is rank 0's evaluation of a job under way. Its counts travel with the
// data cursor under bsp, so that a restart does not change when training ends.
type watch struct {
	opt    *TrainOptions
	names  []string // metrics to report
	metric string   // the one that decides
	sign   float64
	best   float64
	at     uint64 // step of the best, 0: none yet
	last   uint64 // step of the last evaluation
	bad    uint32 // evaluations since the best
	ending bool   // a stop is on its way
	values map[string]float64
}

// watchState is the length of a watch's counts in a cursor: f64 best, u64 its
// step, u64 last evaluated step, u32 evaluations since the best.
const watchState = 28

// newWatch is nil where nothing is evaluated.
func newWatch(opt *TrainOptions, rank int, values bool) (*watch, error) {
	if opt.EvalEvery == 0 {
		if opt.EarlyStop.Patience > 0 || opt.KeepBest != "" {
			return nil, errors.New("early stop and keep best need EvalEvery")
		}
		return nil, nil
	}
	if opt.EvalEvery < 0 || opt.EarlyStop.Patience < 0 || !(opt.EarlyStop.MinDelta >= 0) {
		return nil, fmt.Errorf("evaluate every %d steps, patience %d, least improvement %v: want 0 or more", opt.EvalEvery, opt.EarlyStop.Patience, opt.EarlyStop.MinDelta)
	}
	w := &watch{opt: opt, names: opt.Metrics, metric: opt.EarlyStop.Metric}
	if len(w.names) == 0 {
		w.names = []string{"logloss", "auc"}
		if values {
			w.names = []string{"rmse", "mae"}
		}
	}
	if w.metric == "" {
		if w.metric = "logloss"; values {
			w.metric = "rmse"
		}
	}
	n, err := parseMetric(w.metric)
	if err == nil {
		w.sign, err = n.better()
	}
	if err == nil {
		_, err = newMetrics(w.names)
	}
	if err != nil {
		return nil, err
	}
	if rank != 0 {
		return nil, nil // rank 0 decides for all
	}
	if opt.EvalOn == nil {
		return nil, errors.New("EvalEvery without EvalOn: rank 0 needs data to evaluate on")
	}
	return w, nil
}

// due says whether the parameters after step clock-1 are to be evaluated.
func (w *watch) due(clock uint64) bool {
	return w != nil && !w.ending && clock > 0 && clock%uint64(w.opt.EvalEvery) == 0 && w.last < clock
}

// evaluate judges the model at this worker's clock and keeps it if it is the
// best so far. It reports whether training should end.
func (w *watch) evaluate(ctx context.Context, c *Client, m Model) (enough bool, err error) {
	if err := w.opt.EvalOn.Seek(0, 0); err != nil {
		return false, fmt.Errorf("evaluate after step %d: %w", c.Clock(), err)
	}
	got, err := c.Evaluate(ctx, m, w.opt.EvalOn, append([]string{w.metric}, w.names...)...)
	if err != nil {
		return false, fmt.Errorf("after step %d: %w", c.Clock(), err)
	}
	w.values = map[string]float64{}
	for _, name := range append([]string{w.metric}, w.names...) {
		if w.values[name], err = got.Value(name); err != nil {
			return false, err
		}
	}
	w.last = c.Clock()
	v := w.values[w.metric]
	c.cfg.Logger.Info("evaluated", "step", w.last, "metric", w.metric, "value", v, "best", w.best, "best_step", w.at)
	if math.IsNaN(v) || w.at > 0 && !(w.sign*(v-w.best) > w.opt.EarlyStop.MinDelta) {
		w.bad++
		return w.opt.EarlyStop.Patience > 0 && int(w.bad) >= w.opt.EarlyStop.Patience, nil
	}
	w.best, w.at, w.bad = v, w.last, 0
	if w.opt.KeepBest == "" {
		return false, nil
	}
	if err := c.Save(ctx, w.opt.KeepBest, w.opt.About); err != nil {
		return false, fmt.Errorf("keep the best so far: %w", err)
	}
	return false, nil
}

// append adds the counts to a bsp cursor.
func (w *watch) append(cursor []byte) []byte {
	if w == nil || len(cursor) != dealtCursor {
		return cursor
	}
	cursor = binary.LittleEndian.AppendUint64(cursor, math.Float64bits(w.best))
	cursor = binary.LittleEndian.AppendUint64(cursor, w.at)
	cursor = binary.LittleEndian.AppendUint64(cursor, w.last)
	return binary.LittleEndian.AppendUint32(cursor, w.bad)
}

// resume takes the counts off a cursor.
func (w *watch) resume(cursor []byte) []byte {
	if len(cursor) != dealtCursor+watchState {
		return cursor
	}
	if b := cursor[dealtCursor:]; w != nil {
		w.best, w.at = math.Float64frombits(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])
		w.last, w.bad = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint32(b[24:])
	}
	return cursor[:dealtCursor]
}
