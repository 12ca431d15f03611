package worker

import "sync/atomic"

type counters struct {
	pushes, retriedPushes, duplicatePushes, pulls, pulledRows, pushedRows, pushedBytes, pushedRaw, pulledBytes atomic.Uint64
}

// Stats counts what a client did since Connect.
type Stats struct {
	Steps           uint64 // completed, also by earlier sessions of this worker
	Pushes          uint64 // messages acknowledged
	RetriedPushes   uint64 // messages sent again
	DuplicatePushes uint64 // messages answered from a stored answer
	Pulls           uint64 // messages answered
	PulledRows      uint64
	PushedRows      uint64 // rows of parameters, after merging duplicate keys
	PulledBytes     uint64
	PushedBytes     uint64 // as they were on the wire
	PushedBytesRaw  uint64 // what they would have been without compression
	Time            Times  // of Train
	Checkpoint      CheckpointStats
}

// Stats may be called at any time.
func (c *Client) Stats() Stats {
	n := &c.counters
	return Stats{
		Steps:  c.Clock(),
		Pushes: n.pushes.Load(), RetriedPushes: n.retriedPushes.Load(), DuplicatePushes: n.duplicatePushes.Load(),
		Pulls: n.pulls.Load(), PulledRows: n.pulledRows.Load(), PushedRows: n.pushedRows.Load(),
		PulledBytes: n.pulledBytes.Load(), PushedBytes: n.pushedBytes.Load(), PushedBytesRaw: n.pushedRaw.Load(),
		Time:       c.prof.times(),
		Checkpoint: c.saves.now(),
	}
}
