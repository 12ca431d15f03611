package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// said hears what is logged, before anybody else learns of it.
type said func(message string)

func (said) Enabled(context.Context, slog.Level) bool { return true }

func (s said) Handle(_ context.Context, r slog.Record) error {
	s(r.Message)
	return nil
}

func (s said) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s said) WithGroup(string) slog.Handler      { return s }

// TestTablesAreFreeWhenACheckpointIsSaid captures tables again as soon as a checkpoint is said to be made, or to have failed, and not before.
func TestTablesAreFreeWhenACheckpointIsSaid(t *testing.T) {
	t.Parallel()
	var c *Client
	var heard []string
	log := slog.New(said(func(message string) {
		if !strings.Contains(message, "checkpoint") {
			return
		}
		heard = append(heard, message)
		next, err := c.local.captured(nil, time.Now())
		if err != nil {
			t.Errorf("after %q: %v", message, err)
			return
		}
		next.close()
	}))
	c, err := Connect(t.Context(), Config{Mode: AllReduce, Checkpoints: Checkpoints{Dir: t.TempDir()}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Embedding(t.Context(), "e", EmbeddingSpec{Dim: 4, Optimizer: Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []uint64{1, 0} { // the second is cancelled
		cut, err := c.local.captured(nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.local.captured(nil, time.Now()); err == nil || !strings.Contains(err.Error(), `"e"`) {
			t.Errorf("tables that a checkpoint holds are captured again: %v", err)
		}
		cut.manifest.Step = step
		ctx, cancel := context.WithCancel(t.Context())
		if step == 0 {
			cancel()
		}
		c.local.saver.start = func(part func(context.Context) error) {
			if err := part(ctx); err != nil {
				t.Error(err)
			}
		}
		c.local.saver.save(cut, c.local.mu.RLocker())
		cancel()
	}
	want := []string{"checkpoint", "a checkpoint could not be written; those before it are as they were"}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

// Why checkpoints fail is said once, as long as it is the same: servers may have no folder for them for as long as a job trains.
func TestFailureIsSaidOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	to := slog.New(slog.NewTextHandler(&log, nil))
	var s saves
	for _, why := range []string{"no folder", "no folder", "disk full", "no folder"} {
		s.begin(0, 0)
		s.fail(to, 1, errors.New(why))
	}
	if n := strings.Count(log.String(), "WARN"); n != 3 || s.now().Failed != 4 {
		t.Errorf("%d warnings of %d failures:\n%s", n, s.now().Failed, log.String())
	}
}
