package trace

import (
	"cmp"
	"slices"
	"time"
)

// What a step of training is recorded as. Its time is what shares are of.
const (
	StepCategory = "train"
	StepName     = "step"
)

// Row is what a trace says of all spans of one category and name.
type Row struct {
	Category string
	Name     string
	Count    int
	Total    time.Duration
	Mean     time.Duration
	P50      time.Duration // half of them took no longer
	P99      time.Duration
	Max      time.Duration
	Bytes    int64
	Share    float64 // Total by the time of all steps; above 1 where many go on at the same time; 0 without steps
}

// Summary is what a trace says in numbers.
type Summary struct {
	Steps    int           // that have ended, of all processes
	StepTime time.Duration // of them together
	Rows     []Row         // those of steps first, then in order of category and Total
}

// Summarize counts the spans of a trace and adds them up.
func (t *Trace) Summarize() Summary {
	type key struct{ category, name string }
	took := map[key][]time.Duration{}
	bytes := map[key]int64{}
	for i := range t.Events {
		if e := &t.Events[i]; e.Phase == Complete {
			k := key{e.Category, e.Name}
			took[k] = append(took[k], e.Duration)
			bytes[k] += e.Bytes
		}
	}
	var s Summary
	for k, all := range took {
		r := newRow(all)
		r.Category, r.Name, r.Bytes = k.category, k.name, bytes[k]
		s.Rows = append(s.Rows, r)
		if k.category == StepCategory && k.name == StepName {
			s.Steps, s.StepTime = r.Count, r.Total
		}
	}
	for i := range s.Rows {
		if s.StepTime > 0 {
			s.Rows[i].Share = float64(s.Rows[i].Total) / float64(s.StepTime)
		}
	}
	slices.SortFunc(s.Rows, func(a, b Row) int {
		first := func(r Row) int {
			if r.Category == StepCategory {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Category, b.Category), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
	})
	return s
}

func newRow(took []time.Duration) Row {
	slices.Sort(took)
	r := Row{Count: len(took), P50: quantile(took, 50), P99: quantile(took, 99), Max: took[len(took)-1]}
	for _, d := range took {
		r.Total += d
	}
	r.Mean = r.Total / time.Duration(len(took))
	return r
}

// quantile is the least of the ascending times that so many percent do not exceed.
func quantile(took []time.Duration, percent int) time.Duration {
	return took[(len(took)*percent+99)/100-1]
}
