package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"hcclps/worker/dataset"
)

// habit is a use of a table that the next batch is likely to make too.
type habit struct {
	table   Table
	feature string
}

// learn makes habits of the step's uses. Bags of the model's own making are
// none: nobody can foresee them.
func (s *Step) learn() {
	s.habits = s.habits[:0]
	for _, o := range s.operands {
		if dense(o.of.table) || o.bags.feature != "" {
			s.habits = append(s.habits, habit{o.of.table, o.bags.feature})
		}
	}
}

// ahead is a read of the next batch's rows, under way.
type ahead struct {
	uses     []*operand
	readings []*reading
	sent     chan uint64 // the step as of which to read
	done     chan error
}

// readAhead makes the keys of the next batch ready to be asked for, beside what
// its caller does, and sends them when it is told as of which step; nil if there
// is nothing to read.
func (s *Step) readAhead(ctx context.Context, next *dataset.Batch) *ahead {
	if next.Rows == 0 {
		return nil
	}
	a := &ahead{sent: make(chan uint64, 1), done: make(chan error, 1)}
	for _, h := range s.habits {
		bags, ok := ragged(next, h.feature)
		if !ok && !dense(h.table) {
			continue
		}
		i := slices.IndexFunc(a.readings, func(r *reading) bool { return same(r.table, h.table) })
		if i < 0 {
			i = len(a.readings)
			a.readings = append(a.readings, s.reading(h.table))
		}
		a.uses = append(a.uses, a.readings[i].use(bags))
	}
	if len(a.uses) == 0 {
		return nil
	}
	go func() { a.done <- a.read(ctx, s.c, &s.early) }()
	return a
}

func (a *ahead) read(ctx context.Context, c *Client, u *uniquer) error {
	for _, r := range a.readings {
		r.prepare(u)
	}
	p, err := c.pullOf(a.readings)
	if err != nil {
		return err
	}
	select {
	case step := <-a.sent:
		return p.run(ctx, step)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send lets the read go out. It is called once.
func (a *ahead) send(step uint64) {
	if a != nil {
		a.sent <- step
	}
}

// wait waits for the rows.
func (a *ahead) wait(ctx context.Context) error {
	if a == nil {
		return nil
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), <-a.done)
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
