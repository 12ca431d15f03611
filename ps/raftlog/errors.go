package raftlog

import (
	"errors"
	"fmt"
	"path/filepath"
)

var (
	// ErrNotFound is the miss of [Store.Get] and [Stable]. Its text is part of hashicorp/raft's contract:
	// Raft compares it with "not found" exactly.
	ErrNotFound = errors.New("not found")
	// ErrInUse says that another process, or another owner in this one, holds the directory's lock.
	ErrInUse = errors.New("directory is in use by another server")
	// ErrLost says that acknowledged entries of a group may be missing on this server: its id may never vote again.
	ErrLost = errors.New("raft log is lost")
	// ErrFull says that the log has grown to twice its budget, or that its file system has no room for a segment.
	ErrFull = errors.New("raft log is full")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("raft log is closed")
)

// LostError names the group whose log is lost and why. errors.Is(err, ErrLost) holds.
type LostError struct {
	Group  uint32
	Dir    string // folder of the group's segments
	Reason string
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("raft log of group %d in %s is lost: %s (this server id must not vote again: replace it by a fresh one; if the whole cluster was taken down for good, remove its data directories and %s, and form it anew)", e.Group, e.Dir, e.Reason, filepath.Dir(e.Dir))
}

// Is reports a match with ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }
