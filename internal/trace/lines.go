package trace

import (
	"fmt"
	"time"
)

// lines deals the records of each track out to lines on which they nest, or follow each other. Records come in the order of their starts,
// the longest first.
type lines struct {
	tracks []*Track
	of     [][]line // of each track
	total  int
}

// line has the ends of the spans that are open on it, the innermost last.
type line struct {
	open   []time.Duration
	thread int // a number in order of first use, until number
}

func newLines(tracks []*Track) *lines { return &lines{tracks: tracks, of: make([][]line, len(tracks))} }

// none is the line of what has a line of its own in every viewer: thread 0.
const none = -1

// place finds the first line that takes the record, and returns its number.
func (l *lines) place(rec *record) int {
	of := &l.of[rec.track]
	if rec.kind == Counter {
		return none
	}
	if rec.kind == Instant {
		if len(*of) == 0 {
			l.more(of)
		}
		return (*of)[0].thread
	}
	for i := range *of {
		if (*of)[i].takes(rec, l.tracks[rec.track].layout) {
			return (*of)[i].thread
		}
	}
	l.more(of)
	last := &(*of)[len(*of)-1]
	last.takes(rec, nested)
	return last.thread
}

// at is the line with a span open around a moment, or none.
func (l *lines) at(rec *record) int {
	for _, n := range l.of[rec.track] {
		if len(n.open) > 0 && n.open[0] >= rec.start {
			return n.thread
		}
	}
	return none
}

func (l *lines) more(of *[]line) {
	*of = append(*of, line{thread: l.total})
	l.total++
}

func (n *line) takes(rec *record, layout layout) bool {
	for len(n.open) > 0 && n.open[len(n.open)-1] <= rec.start {
		n.open = n.open[:len(n.open)-1]
	}
	if len(n.open) > 0 && (layout == lanes || n.open[len(n.open)-1] < rec.end) {
		return false
	}
	n.open = append(n.open, rec.end)
	return true
}

// threads lists the lines in the order of tracks, numbered from 1.
func (l *lines) threads() []Thread {
	var all []Thread
	for i, of := range l.of {
		for j := range of {
			name := l.tracks[i].name
			if len(of) > 1 {
				name = fmt.Sprintf("%s %d", name, j+1)
			}
			all = append(all, Thread{ID: len(all) + 1, Name: name})
		}
	}
	return all
}

// number gives events the thread numbers of threads.
func (l *lines) number(events []Event) {
	ids, next := make([]int, l.total), 1
	for _, of := range l.of {
		for j := range of {
			ids[of[j].thread] = next
			next++
		}
	}
	for i := range events {
		if e := &events[i]; e.Thread == none {
			e.Thread = 0
		} else {
			e.Thread = ids[e.Thread]
		}
	}
}
