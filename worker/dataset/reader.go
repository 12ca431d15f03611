package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
)

const defaultBatch = 256

// Reader is the Source over files. It keeps one file open at a time.
type Reader struct {
	cfg   Config
	plan  *plan
	total int64 // bytes of all files
	known int   // rows of an epoch, 0 until one was read to its end

	epoch, batch int // what Next reads
	err          error

	in     *stream // the epoch's rows behind the window, nil before its first
	at     int     // rows of the epoch before pos
	window int     // number of the window held
	rows   rows
	perm   []int32 // order of rows, empty until a row of the window is taken
	pos    int     // next of perm
	from   int64   // bytes read before this window
}

// Open checks cfg and its files and returns a Reader at batch 0 of epoch 0. It
// reads as far as it must: the first line of a format with columns, the first
// 100,000 rows if features are to be inferred or fitted.
func Open(cfg Config) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open data: %w", err)
	}
	if cfg.Batch == 0 {
		cfg.Batch = defaultBatch
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Format == "" {
		cfg.Format = FormatLibsvm
	}
	p, err := newPlan(cfg)
	if err != nil {
		return nil, fmt.Errorf("open data: %w", err)
	}
	r := &Reader{cfg: cfg, plan: p, rows: rows{shape: p.shape}}
	for _, p := range cfg.Paths {
		if st, err := os.Stat(p); err == nil {
			r.total += st.Size()
		}
	}
	return r, nil
}

// Next implements Source.
func (r *Reader) Next(b *Batch) (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	b.reset(r.rows.shape)
	more, err := r.skip(r.batch * r.cfg.Batch)
	for more && err == nil && b.Rows < r.cfg.Batch {
		if more, err = r.more(); more {
			err = r.take(b)
		}
	}
	if err == nil && b.Rows == 0 {
		err = r.endEpoch()
	} else if err == nil {
		r.batch++
	}
	if err != nil {
		r.err = err
		b.reset(r.rows.shape)
	}
	return b.Rows > 0, err
}

// skip moves on to row target of the epoch and reports whether there is one. An
// end that is known is not read for: workers that share an epoch look past it.
func (r *Reader) skip(target int) (bool, error) {
	if r.known > 0 && target >= r.known {
		return false, nil
	}
	for r.at < target {
		more, err := r.more()
		if !more || err != nil {
			return false, err
		}
		n := min(target-r.at, r.rows.len()-r.pos)
		r.at += n
		r.pos += n
	}
	return true, nil
}

// more makes the window hold the next row, reading the next window if need be,
// and reports whether there is one.
func (r *Reader) more() (bool, error) {
	if r.pos < r.rows.len() {
		return true, nil
	}
	if r.in == nil {
		r.in = newStream(r.plan)
		r.window = -1
	}
	r.from = r.in.from.input().bytes
	r.window++
	r.pos, r.perm = 0, r.perm[:0]
	r.rows.reset()
	for !r.rows.full() {
		if err := r.in.next(&r.rows); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return false, err
		}
	}
	if r.rows.len() == 0 {
		r.known = r.at
	}
	return r.rows.len() > 0, nil
}

// take moves the next row of the window into b.
func (r *Reader) take(b *Batch) error {
	i := r.pos
	if !r.cfg.InOrder {
		if len(r.perm) == 0 {
			r.perm = permutation(r.perm, r.rows.len(), r.cfg.Seed, r.epoch, r.window)
		}
		i = int(r.perm[r.pos])
	}
	if !r.rows.appendTo(b, i) {
		return fmt.Errorf("read batch %d of epoch %d: more than 2^31-1 entries: use a smaller batch", r.batch, r.epoch)
	}
	r.pos++
	r.at++
	return nil
}

// endEpoch goes to the start of the next epoch.
func (r *Reader) endEpoch() error {
	if r.known == 0 {
		return fmt.Errorf("read data: no row of %d file(s) is left to use: %d malformed, the rest not in the split", len(r.cfg.Paths), r.in.bad)
	}
	if r.in != nil && r.in.bad > 0 {
		r.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "malformed rows left out",
			slog.Int("epoch", r.epoch), slog.Int("rows", r.in.bad), slog.Any("first", r.in.firstBad))
	}
	err := r.rewind()
	r.epoch++
	r.batch = 0
	return err
}

// rewind puts the position before the first row of the epoch.
func (r *Reader) rewind() error {
	r.at, r.pos, r.from = 0, 0, 0
	r.rows.reset()
	in := r.in
	r.in = nil
	if in == nil {
		return nil
	}
	return in.from.input().close()
}

// Seek implements Source. Forward in the epoch of the position it goes on from
// there, else it reads the epoch from the start, at the next call of Next.
func (r *Reader) Seek(epoch, batch int) error {
	if epoch < 0 || batch < 0 {
		return fmt.Errorf("seek data: epoch %d, batch %d: want 0 or more", epoch, batch)
	}
	batch = min(batch, math.MaxInt/r.cfg.Batch)
	forward := r.err == nil && epoch == r.epoch && batch*r.cfg.Batch >= r.at
	r.epoch, r.batch, r.err = epoch, batch, nil
	if forward {
		return nil
	}
	return r.rewind()
}

// Schema returns what the features are, with all that was inferred and fitted.
// Given as Config.Schema it makes another Reader agree, whatever its files. The
// caller must not change it.
func (r *Reader) Schema() *Schema { return r.plan.schema }

// Position returns the epoch and batch that the following Next reads.
func (r *Reader) Position() (epoch, batch int) { return r.epoch, r.batch }

// Count reads all files once and returns the number of selected rows of an
// epoch. It is how to learn the number of steps ahead, and checks every row; it
// does not move the position.
func (r *Reader) Count() (int, error) {
	in := newStream(r.plan)
	one := rows{shape: r.rows.shape}
	n := 0
	for {
		one.reset()
		err := in.next(&one)
		if errors.Is(err, io.EOF) {
			r.known = n
			return n, nil
		}
		if err != nil {
			return n, errors.Join(err, in.from.input().close())
		}
		n++
	}
}

// Progress returns the part of the epoch gone through, from 0 to 1, by bytes of
// the files: for a progress bar that does not want to Count.
func (r *Reader) Progress() float64 {
	if r.in == nil || r.total == 0 {
		return 0
	}
	done := float64(r.from)
	if n := r.rows.len(); n > 0 {
		done += float64(r.in.from.input().bytes-r.from) * float64(r.pos) / float64(n)
	}
	return min(done/float64(r.total), 1)
}

// Skipped returns how many malformed rows the epoch in progress met, and the
// first of them. Without Config.SkipBad it is always 0, nil.
func (r *Reader) Skipped() (n int, first error) {
	if r.in == nil {
		return 0, nil
	}
	return r.in.bad, r.in.firstBad
}

// Close implements Source. It may be called more than once. Next fails from now
// on, unless Seek opens the files again.
func (r *Reader) Close() error {
	r.err = errors.New("read data: the reader is closed")
	return r.rewind()
}
