package collective

import (
	"fmt"
	"time"

	"hcclps/internal/trace"
)

// tracks are the lines of a group in a profile.
type tracks struct {
	run    *trace.Track // operations while they are carried out
	queued *trace.Track // from when they were posted until then
	waits  *trace.Track // whoever waits for one
}

func newTracks(rec *trace.Recorder) tracks {
	return tracks{run: rec.Lanes("collective", "collective"), queued: rec.Lanes("collective", "queued"), waits: rec.Lanes("collective", "waiting")}
}

// record makes spans of an operation that has ended. rank is this side's number in the group.
func (t *tracks) record(r Record, rank, size int) {
	s := t.run.BeginAt(r.Call.Op.String(), r.Started)
	if !s.Active() {
		return
	}
	s.Bytes = int64(r.Bytes)
	s.Name += " " + r.Call.Algorithm.String()
	if r.Err == nil && size > 1 && r.Call.Op.meets() {
		flow := func(from int) uint64 {
			return trace.FlowID("collective", uint64(r.Call.Group), r.Call.Epoch, r.Call.Seq, uint64(from))
		}
		s.Out, s.In = flow(rank), flow((rank+size-1)%size)
	}
	s.EndAt(r.Ended)
	q := t.queued.BeginAt("queued", r.Posted)
	q.EndAt(r.Started)
}

// meets says that no rank is through the operation before all have begun it: so a profile may tie each rank's beginning to its neighbour's end.
func (o Op) meets() bool { return o != Broadcast && o != Reduce && o != Scatter && o != Gather }

// Flight is what the flight recorder has, for a file.
func (g *Group) Flight() trace.Flight {
	f := trace.Flight{Rank: g.cfg.Ranks[g.Rank()], World: g.Size(), Written: time.Now()}
	f.Process = fmt.Sprintf("rank %d", f.Rank)
	for _, r := range g.Recent() {
		o := trace.Operation{
			Group: fmt.Sprintf("%08x", r.Call.Group), Epoch: r.Call.Epoch, Seq: r.Call.Seq, Call: r.Call.String(), Op: r.Call.Op.String(),
			Bytes: int64(r.Bytes), Posted: r.Posted, Started: r.Started, Ended: r.Ended,
		}
		if r.Err != nil {
			o.Error = r.Err.Error()
		}
		f.Operations = append(f.Operations, o)
	}
	return f
}
