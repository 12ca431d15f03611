package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"hcclps/ps/wire"
)

// bar shows on a terminal how far something is.
type bar struct {
	out   io.Writer
	name  string
	shown *progressbar.ProgressBar
}

// newBar shows nothing where nobody looks: not on a terminal, or with --json.
func newBar(c *cli.Context, name string) *bar {
	b := &bar{name: name}
	if f, ok := c.App.ErrWriter.(*os.File); ok && !c.Bool("json") && term.IsTerminal(int(f.Fd())) {
		b.out = f
	}
	return b
}

func (b *bar) set(done, total int64) {
	if b.out == nil || total <= 0 {
		return
	}
	if b.shown == nil {
		b.shown = progressbar.NewOptions64(total, progressbar.OptionSetWriter(b.out), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetDescription(b.name), progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(30))
	}
	b.shown.ChangeMax64(max(total, done))
	_ = b.shown.Set64(done) // only shown
}

// parts shows the parts of a checkpoint as one.
func (b *bar) parts(s *wire.CheckpointStatus) {
	var done, total int64
	for _, p := range s.Parts {
		done, total = done+p.Bytes, total+p.Total
	}
	b.set(done, total)
}

func (b *bar) end() {
	if b.shown != nil {
		_ = b.shown.Clear() // only shown
		b.shown = nil
	}
}
