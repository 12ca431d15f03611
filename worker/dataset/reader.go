package dataset

import (
	"errors"
)

// Reader is the Source over files. It keeps one file open at a time.
type Reader struct {
	cfg Config
}

var errSkeleton = errors.New("not there yet")

// Open checks cfg and its files and returns a Reader at batch 0 of epoch 0. It
// reads nothing yet.
func Open(cfg Config) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Reader{cfg: cfg}, nil
}

// Next implements Source.
func (r *Reader) Next(b *Batch) (bool, error) { return false, errSkeleton }

// Seek implements Source.
func (r *Reader) Seek(epoch, batch int) error { return errSkeleton }

// Position returns the epoch and batch that the following Next reads.
func (r *Reader) Position() (epoch, batch int) { return 0, 0 }

// Count reads all files once and returns the number of selected rows of an
// epoch. It is how to learn the number of steps ahead, and checks every row; it
// does not move the position.
func (r *Reader) Count() (rows int, err error) { return 0, errSkeleton }

// Progress returns the part of the epoch's bytes read so far, from 0 to 1: for
// a progress bar that does not want to Count.
func (r *Reader) Progress() float64 { return 0 }

// Skipped returns how many malformed rows the epoch in progress met, and the
// first of them. Without Config.SkipBad it is always 0, nil.
func (r *Reader) Skipped() (rows int, first error) { return 0, nil }

// Close implements Source. It may be called more than once.
func (r *Reader) Close() error { return nil }
