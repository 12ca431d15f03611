package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"hcclps/worker"
)

// progress shows how far training is: a bar on a terminal, else a line every
// few seconds. It also measures the longest time between two steps.
type progress struct {
	j       *job
	bar     *progressbar.ProgressBar
	out     io.Writer
	start   time.Time
	said    time.Time
	last    time.Time
	longest time.Duration
	rows    uint64
	times   func() worker.Times // where time went so far
	told    worker.Times        // at the line before
	saves   func() worker.CheckpointStats
	saved   worker.CheckpointStats // as it was told before
}

// barUnits is how finely the bar divides an epoch.
const barUnits = 1000

func newProgress(j *job, client *worker.Client) *progress {
	p := &progress{j: j, out: j.c.App.ErrWriter, start: time.Now(), times: func() worker.Times { return client.Stats().Time }, saves: func() worker.CheckpointStats { return client.Stats().Checkpoint }}
	if j.cfg.Rank != 0 {
		p.out = io.Discard
	}
	if f, ok := p.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(barUnits*j.model.Epochs,
			progressbar.OptionSetWriter(p.out), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(30), progressbar.OptionSetElapsedTime(true))
	}
	return p
}

func (p *progress) step(s worker.Progress) {
	now := time.Now()
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last, p.rows = now, s.Rows
	if p.bar == nil && now.Sub(p.said) < 2*time.Second {
		return
	}
	p.said = now
	epoch, part := p.j.data.Position()
	if part == 0 && epoch > 0 { // the last batch of the epoch has been read
		epoch--
	}
	what := fmt.Sprintf("epoch %d/%d  loss %.4f  %.0f rows/s%s", min(epoch+1, p.j.model.Epochs), p.j.model.Epochs, s.Loss, p.rate(now), p.shares())
	what += p.checkpointed(p.saves())
	at := float64(epoch) + p.j.data.Progress()
	if p.bar == nil {
		fmt.Fprintf(p.out, "%3.0f %%  %s\n", 100*at/float64(p.j.model.Epochs), what)
		return
	}
	p.bar.Describe(what)
	_ = p.bar.Set(int(at * barUnits)) // a bar that cannot be drawn is no reason to fail
}

// shares says where time went since the line before.
func (p *progress) shares() string {
	now := p.times()
	since := now.Minus(p.told)
	all := since.Sum()
	if all <= 0 {
		return ""
	}
	p.told = now
	percent := func(d time.Duration) int { return int((200*d + all) / (2 * all)) }
	return fmt.Sprintf("  compute %d%% read %d%% pull %d%% push %d%% wait %d%%", percent(since.Compute), percent(since.Read), percent(since.Pull), percent(since.Push), percent(since.Wait))
}

func (p *progress) rate(now time.Time) float64 {
	return float64(p.rows) / max(now.Sub(p.start).Seconds(), 1e-3)
}

// end leaves a full bar when training ended well.
func (p *progress) end(err error) {
	p.checkpointed(p.saves())
	if p.bar == nil {
		if err == nil {
			fmt.Fprintf(p.out, "100 %%  %d rows, %.0f rows/s\n", p.rows, p.rate(time.Now()))
		}
		return
	}
	if err == nil {
		_ = p.bar.Finish()
	}
	fmt.Fprintln(p.out)
}
