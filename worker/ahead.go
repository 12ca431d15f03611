package worker

import (
	"context"
	"errors"
	"log/slog"

	"hcclps/worker/dataset"
)

// ahead is a read of the next batch's rows, under way.
type ahead struct {
	uses []*operand
	done chan error
}

// readAhead repeats the step's uses of tables on the next batch, as of step at;
// nil if there is nothing to read.
func (s *Step) readAhead(ctx context.Context, next *dataset.Batch, at uint64) *ahead {
	if next.Rows == 0 {
		return nil
	}
	a := &ahead{done: make(chan error, 1)}
	for _, o := range s.operands {
		bags, ok := ragged(next, o.bags.feature)
		if !ok && !dense(o.table) {
			continue // bags of the model's making: nobody can foresee them
		}
		a.uses = append(a.uses, s.newOperand(o.table, bags))
	}
	if len(a.uses) == 0 {
		return nil
	}
	go func() { a.done <- s.read(ctx, at, a.uses) }()
	return a
}

func (a *ahead) wait(ctx context.Context) ([]*operand, error) {
	if a == nil {
		return nil, nil
	}
	select {
	case err := <-a.done:
		return a.uses, err
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), <-a.done)
	}
}

// settle waits for a cancelled read; its error says nothing new.
func (a *ahead) settle(log *slog.Logger) {
	if a == nil {
		return
	}
	if err := <-a.done; err != nil {
		log.Debug("read ahead given up", "err", err)
	}
}
