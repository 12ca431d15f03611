package trace

import (
	"math"
	"time"
)

// between is what the flows from one process to another say: the least time that one took, by the two clocks.
type between struct {
	least time.Duration
	n     int
}

// align finds the skews, and moves the processes whose clocks cannot be right. What a flow took is at least 0, so with d the least time by the two clocks
// there and e back, the clock of the far side is ahead by something in [-e, d]: the middle is taken, as NTP does. A process is compared with
// one that is placed already, the first one above all.
func (m *Merged) align() {
	links := m.links()
	type pair = [2]int
	placed := map[int]bool{}
	for i := range m.Processes {
		placed[m.Processes[i].ID] = i == 0
	}
	for range m.Processes {
		best, from, to := between{}, -1, -1
		for i := range m.Processes {
			for j := range m.Processes {
				a, b := m.Processes[i].ID, m.Processes[j].ID
				n := links[pair{a, b}].n + links[pair{b, a}].n
				if placed[a] && !placed[b] && n > best.n {
					best.n, from, to = n, i, j
				}
			}
		}
		if from < 0 {
			return
		}
		a, b := &m.Processes[from], &m.Processes[to]
		placed[b.ID] = true
		there, back := links[pair{a.ID, b.ID}], links[pair{b.ID, a.ID}]
		s := Skew{Process: b.Name, Against: a.Name, Flows: best.n, Within: -1}
		if there.n > 0 && back.n > 0 {
			s.Offset, s.Within = (there.least-back.least)/2, (there.least+back.least)/2
		}
		if impossible := there.n > 0 && there.least < 0 || back.n > 0 && back.least < 0; impossible {
			s.Shifted = true
			if s.Within < 0 { // one way only: the least that makes it possible
				s.Offset = min(there.least, 0) - min(back.least, 0)
			}
			m.shift(b, -s.Offset, links)
		}
		m.Skews = append(m.Skews, s)
	}
}

// links finds the fastest flow from each process to each other.
func (m *Merged) links() map[[2]int]between {
	starts := map[uint64]*Event{}
	for i := range m.Events {
		if e := &m.Events[i]; e.Phase == FlowStart && starts[e.Flow] == nil {
			starts[e.Flow] = e
		}
	}
	links := map[[2]int]between{}
	for i := range m.Events {
		e := &m.Events[i]
		s := starts[e.Flow]
		if e.Phase != FlowEnd || s == nil || s.Process == e.Process {
			continue
		}
		k := [2]int{s.Process, e.Process}
		l, ok := links[k]
		if !ok {
			l.least = math.MaxInt64
		}
		l.least = min(l.least, e.Time-s.Time)
		l.n++
		links[k] = l
	}
	return links
}

// shift moves a process in time, and what is known of its flows with it.
func (m *Merged) shift(p *Process, by time.Duration, links map[[2]int]between) {
	p.Shift += by
	for i := range m.Events {
		if m.Events[i].Process == p.ID {
			m.Events[i].Time += by
		}
	}
	for k, l := range links {
		switch p.ID {
		case k[0]:
			l.least -= by
		case k[1]:
			l.least += by
		}
		links[k] = l
	}
}
