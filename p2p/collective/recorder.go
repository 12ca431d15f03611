package collective

import "time"

// Record is what the flight recorder keeps of an operation.
type Record struct {
	// Call is the operation with its algorithm.
	Call Call
	// Bytes is its size in the sense of the cost model.
	Bytes int
	// Posted, Started and Ended are when it was called, when it was its turn, and when it ended; Ended is zero while it is under way.
	Posted, Started, Ended time.Time
	// Err is why it failed.
	Err error
}

// recorded is how many operations are kept.
const recorded = 256

// entry is a Record with times since the recorder's epoch, which take half as long to tell.
type entry struct {
	call                   Call
	bytes                  int
	posted, started, ended time.Duration // ended 0: under way
	err                    error
}

// recorder keeps the last operations that have begun. Its owner locks it.
type recorder struct {
	epoch time.Time
	ring  [recorded]entry
	n     int // begun so far
}

func (r *recorder) begin(w *Work, started time.Duration) {
	w.slot = r.n
	r.ring[r.n%recorded] = entry{call: w.call, bytes: w.bytes, posted: w.posted, started: started}
	r.n++
}

// end notes the end of an operation, and returns its entry, nil if it never began.
func (r *recorder) end(w *Work, now time.Duration, err error) *entry {
	e := &r.ring[w.slot%recorded]
	if e.call.Seq != w.call.Seq || e.call.Seq == 0 {
		return nil
	}
	e.ended, e.err = max(now, 1), err
	return e
}

// record is what an entry says.
func (r *recorder) record(e *entry) Record {
	rec := Record{Call: e.call, Bytes: e.bytes, Posted: r.epoch.Add(e.posted), Started: r.epoch.Add(e.started), Err: e.err}
	if e.ended != 0 {
		rec.Ended = r.epoch.Add(e.ended)
	}
	return rec
}

func (r *recorder) list() []Record {
	var all []Record
	for i := max(0, r.n-recorded); i < r.n; i++ {
		all = append(all, r.record(&r.ring[i%recorded]))
	}
	return all
}
