package checkpoint

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Why a checkpoint cannot be written, read or removed, for errors.Is.
var (
	ErrNotFound = errors.New("there is no such checkpoint")
	ErrExists   = errors.New("the checkpoint exists already")
	ErrFull     = errors.New("no space left for a checkpoint")
	ErrVersion  = errors.New("written by a newer version of this program")
	ErrDamaged  = errors.New("the checkpoint is damaged")
	ErrMissing  = errors.New("a file of the checkpoint is missing")
	ErrHashSeed = errors.New("the checkpoint was made with another hash seed")
	ErrInUse    = errors.New("in use")
	ErrClosed   = errors.New("closed")
)

// DamageError tells of bytes on disk that fail their checks. It is ErrDamaged.
type DamageError struct {
	File   string // path
	Offset int64  // in the file
	Table  string // name of the table whose rows are hit, if it is known
	Blob   string // or of the blob
	Chunk  string // SHA-256 of the chunk that should be there, if it is known
	Reason string
}

// Error names file, offset, and what is known of the contents.
func (d *DamageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "damaged file %s at offset %d", d.File, d.Offset)
	if d.Table != "" {
		fmt.Fprintf(&b, ", table %q", d.Table)
	}
	if d.Blob != "" {
		fmt.Fprintf(&b, ", blob %q", d.Blob)
	}
	if d.Chunk != "" {
		fmt.Fprintf(&b, ", chunk %s", d.Chunk)
	}
	return b.String() + ": " + d.Reason
}

// Is reports a match with ErrDamaged.
func (d *DamageError) Is(target error) bool { return target == ErrDamaged }

// inFile gives an error found while decoding bytes the name of their file.
func inFile(err error, name string) error {
	if errors.Is(err, ErrVersion) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if d, ok := errors.AsType[*DamageError](err); ok && d.File == "" {
		d.File = name
	}
	return err
}

// explain says what was done, and gives a full disk its name.
func explain(op string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%s: %w (free some, or choose another folder): %w", op, ErrFull, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
