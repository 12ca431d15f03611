package collective

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Pulse is a Control that knows who lives. A world of processes is one.
type Pulse interface {
	// Health says of every rank since when nothing was heard of it, negative if it has gone; its position, as Positions does; and why it ended, "" if
	// it did not.
	Health(ctx context.Context) (silent []time.Duration, positions [][]byte, reasons []string, err error)
}

// Health is what is known of one member.
type Health struct {
	Rank   int           // by its number in Config.Ranks
	Silent time.Duration // since something was heard of it; negative: it has gone
	Last   Call          // what it called last, as it reported at most an eighth of Config.Watchdog ago; Seq 0: nothing, or it did not answer
	Inside bool          // it is in that call still
	Reason string        // why it ended: it failed, or is dead, or has left; "": it did not
}

// Health asks how the members are, by rank of the Comm. It wants a Control that is a Pulse, and takes a second where one does not answer.
func (g *Group) Health(ctx context.Context) ([]Health, error) {
	pulse, ok := g.cfg.Control.(Pulse)
	if !ok {
		return nil, errors.New("ask for the health of members: the group has no control that knows it")
	}
	g.cfg.Control.Report(g.position().encode())
	silent, positions, reasons, err := pulse.Health(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Health, g.Size())
	for i, r := range g.cfg.Ranks {
		if r < 0 || r >= len(silent) {
			return nil, fmt.Errorf("ask for the health of members: the control knows %d ranks, and not rank %d", len(silent), r)
		}
		all[i] = Health{Rank: r, Silent: silent[r], Reason: reasons[r]}
		if p, err := decodePosition(positions[r]); err == nil {
			all[i].Last, all[i].Inside = p.call, p.state == positionIn
		}
	}
	return all, nil
}
