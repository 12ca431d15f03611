// Package snapshot is a raft.SnapshotStore on dirty pages.
package snapshot
