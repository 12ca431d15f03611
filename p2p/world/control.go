package world

import (
	"fmt"
	"strings"

	"hcclps/p2p"
)

// heard acts on a frame from the other end of a line.
func (w *World) heard(from int, f frame) error {
	if f.rank >= w.Size() {
		return fmt.Errorf("%w: frame of kind %d about rank %d of %d", p2p.ErrMalformed, f.kind, f.rank, w.Size())
	}
	if w.cfg.Rank == 0 {
		return w.heardFrom(from, f)
	}
	return w.heardOf(f)
}

// heardFrom is rank 0's: a rank speaks of itself.
func (w *World) heardFrom(from int, f frame) error {
	if f.kind != kindAsk && f.rank != from {
		return fmt.Errorf("%w: rank %d speaks for rank %d", p2p.ErrMalformed, from, f.rank)
	}
	switch f.kind {
	case kindFailed:
		w.judge(from, f.text)
	case kindLeft:
		w.fate.leaves(from, f.text)
		w.polls.gone(from)
		w.tellAll(f)
	case kindAsk:
		w.polls.ask(func(positions [][]byte) {
			for r, p := range positions {
				w.lines[from].post(frame{kind: kindPosition, query: f.query, rank: r, position: p})
			}
			w.lines[from].post(frame{kind: kindAnswered, query: f.query})
		})
	case kindPosition:
		w.polls.answer(from, f)
	default:
		return fmt.Errorf("%w: frame of kind %d from rank %d", p2p.ErrMalformed, f.kind, from)
	}
	return nil
}

// heardOf is that of the others: rank 0 speaks of all.
func (w *World) heardOf(f frame) error {
	switch f.kind {
	case kindFailed:
		w.judge(f.rank, f.text)
	case kindLeft:
		w.fate.leaves(f.rank, f.text)
	case kindAsk:
		w.lines[0].post(frame{kind: kindPosition, query: f.query, rank: w.cfg.Rank, position: w.place.get()})
	case kindPosition, kindAnswered:
		w.questions.told(f)
	default:
		return fmt.Errorf("%w: frame of kind %d from rank 0", p2p.ErrMalformed, f.kind)
	}
	return nil
}

// lost notes that the line to a rank has ended; err nil: this side ended it.
func (w *World) lost(rank int, err error) {
	if err == nil {
		return
	}
	l := w.lines[rank]
	reason := strings.TrimPrefix(err.Error(), p2p.ErrPeer.Error()+": ")
	if w.fate.hasLeft(rank) {
		w.cfg.Logger.Debug("a rank has left", "rank", rank)
	} else {
		w.judge(rank, reason)
		if w.cfg.Rank == 0 { // perhaps it was only silent: then it shall know
			l.last(frame{kind: kindFailed, rank: rank, text: reason})
		}
	}
	_ = l.conn.Close()
	if w.cfg.Rank == 0 {
		w.polls.gone(rank)
	} else {
		w.questions.end()
	}
}
