package world

import (
	"context"
	"fmt"
	"time"
)

// Health is what is known of one rank.
type Health struct {
	Rank   int
	Info   string        // where it runs, for people
	Silent time.Duration // since something was heard of it: mostly below a heartbeat; negative: it has gone
	// Position is what it reported last, nil if it has not, has gone, or did not answer within a second.
	Position []byte
	Reason   string // why it ended the World, or left; "": it did neither
}

// Health asks how all ranks are, by rank. The error is as that of Positions.
func (w *World) Health(ctx context.Context) ([]Health, error) {
	answers, err := w.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the health of ranks: %w", err)
	}
	verdict := w.fate.known()
	all := make([]Health, w.Size())
	for r := range all {
		a := answers[r]
		all[r] = Health{Rank: r, Info: w.Info(r), Silent: a.age, Position: a.position, Reason: w.fate.why(r)}
		if verdict != nil && verdict.Rank == r {
			all[r].Reason = verdict.Reason
		}
	}
	return all, nil
}
