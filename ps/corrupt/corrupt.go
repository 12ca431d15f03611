// Package corrupt names damage: bytes on disk, or of a snapshot on its way,
// that fail their checks. Logs, store and snapshots refuse with its Error, change
// nothing, and use nothing older instead.
package corrupt

import (
	"errors"
	"fmt"
)

// Err is in the chain of every Error.
var Err = errors.New("data is corrupt")

// Error says which file is damaged, where and in what.
type Error struct {
	File   string
	Offset int64
	Reason string
}

// Error names file, offset and fault.
func (e *Error) Error() string {
	return fmt.Sprintf("corrupt file %s at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Is reports a match with Err.
func (e *Error) Is(target error) bool { return target == Err }
