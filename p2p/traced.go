package p2p

import "hcclps/internal/trace"

// Spans of transfers: from when they are offered or asked for until Done. Both sides give the flow from the one to the other the same number.

// begin begins the span of an outgoing transfer.
func (o *Outgoing) begin() {
	if o.span = o.t.sends.Begin("send"); o.span.Active() {
		o.span.Peer, o.span.Out = o.t.cfg.Peer, o.t.flow(o.t.cfg.Rank, o.id)
	}
}

// recorded ends it; t.mu is held.
func (o *Outgoing) recorded() {
	if o.span.Bytes = int64(o.acked); o.cancelled {
		o.span.Out = 0
	}
	o.span.End()
}

// begin begins the span of an incoming transfer.
func (in *Incoming) begin() {
	if in.span = in.t.receives.Begin("receive"); in.span.Active() {
		in.span.Peer, in.span.In = in.t.cfg.Peer, in.t.flow(1-in.t.cfg.Rank, in.id)
	}
}

// recorded ends it; t.mu is held.
func (in *Incoming) recorded() {
	if in.span.Bytes = int64(in.taken); in.aborted.Load() {
		in.span.In = 0
	}
	in.span.End()
}

// flow is the number of what a transfer is from its sender to its receiver.
func (t *Transfer) flow(sender int, id uint64) uint64 {
	return trace.FlowID("transfer", t.cfg.Pair, uint64(sender), id)
}
