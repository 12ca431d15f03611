package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

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
		if dense(o.reading.table) || o.bags.feature != "" {
			s.habits = append(s.habits, habit{o.reading.table, o.bags.feature})
		}
	}
}

// ahead is the next batch on its way: taken from the source, its keys made ready
// and, when the step before it is done, its rows asked for.
type ahead struct {
	batch    *dataset.Batch
	uses     []*operand
	readings []*reading
	filled   chan error  // the batch has been taken
	sent     chan uint64 // the step as of which to read
	done     chan error  // the rows are there
	until    latest      // when other workers were there
}

// fetch begins with the next batch, beside what its caller does. fill takes it
// from the source, and says whether its rows are to be read ahead.
func (s *Step) fetch(ctx context.Context, next *dataset.Batch, fill func() (bool, error)) *ahead {
	a := &ahead{batch: next, filled: make(chan error, 1), sent: make(chan uint64, 1), done: make(chan error, 1)}
	habits := slices.Clone(s.habits)
	for _, h := range habits {
		if a.reading(h.table) == nil {
			a.readings = append(a.readings, s.reading(h.table))
		}
	}
	go func() {
		ok, err := fill()
		a.filled <- err
		if ok && err == nil && next.Rows > 0 {
			err = a.read(ctx, s.c, &s.early, habits)
		}
		a.done <- err
	}()
	return a
}

// reading is that of a table, or nil.
func (a *ahead) reading(t Table) *reading {
	if i := slices.IndexFunc(a.readings, func(r *reading) bool { return same(r.table, t) }); i >= 0 {
		return a.readings[i]
	}
	return nil
}

func (a *ahead) read(ctx context.Context, c *Client, u *uniquer, habits []habit) error {
	for _, h := range habits {
		if bags, ok := ragged(a.batch, h.feature); ok || dense(h.table) {
			a.uses = append(a.uses, a.reading(h.table).use(bags))
		}
	}
	a.readings = slices.DeleteFunc(a.readings, func(r *reading) bool { return len(r.uses) == 0 })
	for _, r := range a.readings {
		r.prepare(u)
	}
	p, err := c.pullOf(a.readings)
	if err != nil {
		return err
	}
	select {
	case step := <-a.sent:
		return p.run(ctx, step, &a.until)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send lets the rows be asked for. It is called once.
func (a *ahead) send(step uint64) { a.sent <- step }

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

// others is until when the rows were those of a step that other workers had not done.
func (a *ahead) others() time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.until.time()
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
