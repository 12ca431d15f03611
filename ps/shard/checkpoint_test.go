package shard

import (
	"context"
	"errors"
	"testing"

	"hcclps/checkpoint"
	"hcclps/ps/table"
)

// partOfJob is a part of a checkpoint of a job without tables.
func partOfJob(name string, id, on uint64) *part {
	p := &part{cut: cut{ID: id, Base: on}, pages: &capture{}, ended: make(chan struct{})}
	p.head.Job = &job{Name: name}
	return p
}

// Checkpoints of two jobs in turn are deltas on those of their own.
func TestBasesAreOfTheirJob(t *testing.T) {
	t.Parallel()
	s := newSaving()
	for _, p := range []*part{partOfJob("a", 1, 0), partOfJob("b", 2, 0), partOfJob("a", 3, 1), partOfJob("b", 4, 2), partOfJob("a", 5, 3)} {
		s.keep(p)
	}
	for id, job := range map[uint64]string{3: "a", 4: "b", 5: "a", 2: "b"} {
		if s.bases[id].job != job {
			t.Errorf("checkpoint %d is remembered of job %q, want %q", id, s.bases[id].job, job)
		}
	}
	if len(s.bases) != 4 {
		t.Errorf("%d bases are remembered, want the two newest of each job: %v", len(s.bases), s.bases)
	}
}

// begunPart is a part that holds its one table.
func begunPart(t *testing.T) (ctx context.Context, s *saving, p *part, rows *table.Table) {
	t.Helper()
	rows, err := table.New(table.Spec{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rows.Close() })
	p = partOfJob("a", 1, 0)
	p.pages.tables = []captured{{pages: rows.Capture()}}
	s = newSaving()
	s.part = p
	ctx, cancel, err := p.begin(t.Context())
	t.Cleanup(func() { cancel(nil) })
	if err != nil || s.holds() != 1 || rows.Capture() != nil {
		t.Fatalf("begin: %v, holds %d", err, s.holds())
	}
	return ctx, s, p, rows
}

// A part whose pages are all written holds no table, while it is made durable, and is not given up for steps that wait.
func TestPartThatIsOutLetsTablesGo(t *testing.T) {
	t.Parallel()
	ctx, s, p, rows := begunPart(t)
	p.letGo()
	if c := rows.Capture(); c == nil || s.holds() != 0 {
		t.Errorf("the table is still held, by %d", s.holds())
	}
	s.slow(errSlow)
	if err := p.finish(checkpoint.Part{}); err != nil || ctx.Err() != nil {
		t.Errorf("finish: %v, %v", err, context.Cause(ctx))
	}
	s.keep(p) // its epochs are known still
	if b := s.bases[1]; b.epochs[0] != 1 {
		t.Errorf("kept: %+v", b)
	}
}

// What is given up holds no table, also while its writer hangs in the folder.
func TestGivenUpPartLetsTablesGo(t *testing.T) {
	t.Parallel()
	ctx, s, p, rows := begunPart(t)
	p.giveUp(errDropped)
	if !errors.Is(context.Cause(ctx), errDropped) || s.holds() != 0 {
		t.Errorf("given up: %v, holds %d", context.Cause(ctx), s.holds())
	}
	if c := rows.Capture(); c == nil {
		t.Error("the table is still held")
	}
}
