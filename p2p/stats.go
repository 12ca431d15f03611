package p2p

import "time"

// Stats counts what a Transfer did.
type Stats struct {
	Sent, Received uint64        // bytes
	Resumed        uint64        // bytes that unfinished transfers kept when an epoch ended
	Again          uint64        // bytes that were on their way then and moved again
	Resets         uint64        // epochs that ended by a fault
	Switches       uint64        // epochs that ended for an upgraded Comm
	Epoch          uint32        // the present one
	Chunk          int           // bytes of a chunk to be received
	Bandwidth      float64       // measured at the receiving half, bytes a second, 0 before
	Latency        time.Duration // of the same measurement
}

// Plus adds the counts of another Transfer. Of the rest it has what moved most.
func (s Stats) Plus(o Stats) Stats {
	if o.Received > s.Received {
		s.Chunk, s.Bandwidth, s.Latency, s.Epoch = o.Chunk, o.Bandwidth, o.Latency, o.Epoch
	}
	s.Sent += o.Sent
	s.Received += o.Received
	s.Resumed += o.Resumed
	s.Again += o.Again
	s.Resets += o.Resets
	s.Switches += o.Switches
	return s
}

// Stats returns a snapshot.
func (t *Transfer) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Epoch, s.Chunk, s.Bandwidth, s.Latency = t.epoch, t.sizer.size, t.meter.bandwidth, t.meter.latency
	return s
}
