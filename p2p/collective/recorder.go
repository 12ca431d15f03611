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

// recorder keeps the last operations that have begun. Its owner locks it.
type recorder struct {
	ring [recorded]Record
	n    int // begun so far
}

func (r *recorder) begin(w *Work, started time.Time) {
	w.slot = r.n
	r.ring[r.n%recorded] = Record{Call: w.call, Bytes: w.bytes, Posted: w.posted, Started: started}
	r.n++
}

// end notes the end of an operation, and returns its record, nil if it never began.
func (r *recorder) end(w *Work, err error) *Record {
	rec := &r.ring[w.slot%recorded]
	if rec.Call != w.call || rec.Started.IsZero() {
		return nil
	}
	rec.Ended, rec.Err = time.Now(), err
	return rec
}

func (r *recorder) list() []Record {
	var all []Record
	for i := max(0, r.n-recorded); i < r.n; i++ {
		all = append(all, r.ring[i%recorded])
	}
	return all
}
