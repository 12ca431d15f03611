package world

import (
	"errors"
	"fmt"
	"strings"

	"hcclps/p2p"
)

// heard acts on a frame of the rendezvous.
func (w *World) heard(f frame) error {
	if f.rank >= w.Size() {
		return fmt.Errorf("%w: frame of kind %d about rank %d of %d", p2p.ErrMalformed, f.kind, f.rank, w.Size())
	}
	switch f.kind {
	case kindFailed:
		if f.scope == "" {
			w.judge(f.rank, f.text)
		} else {
			w.told(f)
		}
	case kindLeft:
		w.fate.leaves(f.rank, f.text)
	case kindAsk:
		w.link.post(frame{kind: kindPosition, query: f.query, rank: w.rank, position: w.positionIn(f.scope)})
	case kindPosition, kindAnswered:
		w.questions.told(f)
	case kindMoved:
		return errMoved
	case kindWaiting:
		w.waiting.Store(int64(f.count))
	default:
		return fmt.Errorf("%w: frame of kind %d from the rendezvous", p2p.ErrMalformed, f.kind)
	}
	return nil
}

// lost notes that the uplink has ended; err nil: this side ended it.
func (w *World) lost(err error) {
	if err == nil {
		return
	}
	center := w.table.center
	w.gone.Store(true)
	switch {
	case errors.Is(err, errMoved):
		w.moved.Store(true)
		w.judge(-1, plain(err))
	case center >= 0 && w.fate.hasLeft(center):
		w.cfg.Logger.Debug("the rank with the rendezvous has left", "rank", center)
	case center >= 0:
		w.judge(center, plain(err))
	default:
		w.judge(center, fmt.Sprintf("the rendezvous (%s) is lost: %s", w.table.info, plain(err)))
	}
	w.link.close()
	w.questions.end()
}

// plain is an error for people who know that it is about a peer that is lost.
func plain(err error) string { return strings.TrimPrefix(err.Error(), p2p.ErrPeer.Error()+": ") }

// Waiting is how many processes wait to be let in by Rebuild, as far as this rank has heard. All ranks must rebuild at the same point for that: they
// agree on it first.
func (w *World) Waiting() int { return int(w.waiting.Load()) }
