package world

import (
	"context"
	"fmt"
	"time"
)

// Health asks how all ranks are. By rank it says since when nothing was heard of it, mostly less than a heartbeat and negative if it has gone; its
// position, as Positions does; and why it ended the World or left, "" if it did neither. The error is as that of Positions.
func (w *World) Health(ctx context.Context) (silent []time.Duration, positions [][]byte, reasons []string, err error) {
	return w.health(ctx, "", w.fate)
}

func (w *World) health(ctx context.Context, scope string, f *fate) (silent []time.Duration, positions [][]byte, reasons []string, err error) {
	answers, err := w.ask(ctx, scope)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("ask for the health of ranks: %w", err)
	}
	verdict := f.known()
	for r, a := range answers {
		why := w.fate.why(r)
		if verdict != nil && verdict.Rank == r {
			why = verdict.Reason
		}
		silent, positions, reasons = append(silent, a.age), append(positions, a.position), append(reasons, why)
	}
	return silent, positions, reasons, nil
}
