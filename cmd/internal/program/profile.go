package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/internal/trace"
)

// ProfileFlag is --profile. who says which processes write a file of their own.
func ProfileFlag(who string) cli.Flag {
	return &cli.StringFlag{Name: "profile", Usage: "write what was done when to `FILE`, for ps-worker profile and ui.perfetto.dev" + who, EnvVars: Env("profile")}
}

// Profile is the recording that --profile asks for. A nil one does nothing.
type Profile struct {
	path string
	rec  *trace.Recorder
}

// PartOf is the file of one process of several: out.PART.json of out.json.
func PartOf(path, part string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "." + part + ext
}

// NewProfile makes the recorder of a process, and starts it; nil without --profile. The file of one process of several has part in its name.
func NewProfile(c *cli.Context, process string, id int, part string) (*Profile, error) {
	path := c.String("profile")
	if path == "" {
		return nil, nil
	}
	if part != "" {
		path = PartOf(path, part)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
		return nil, Usage("--profile %s: %s is no folder", path, filepath.Dir(path))
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil, Usage("--profile %s is a folder: name a file", path)
	}
	p := &Profile{path: path, rec: trace.New(trace.Config{Process: process, ID: id})}
	p.rec.Start()
	return p, nil
}

// Recorder is what to record with; nil without a profile.
func (p *Profile) Recorder() *trace.Recorder {
	if p == nil {
		return nil
	}
	return p.rec
}

// With runs f, memory being sampled beside it, and writes the file when f has returned, well or not.
func (p *Profile) With(ctx context.Context, f func(context.Context) error) error {
	if p == nil {
		return f(ctx)
	}
	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan error, 1)
	go func() { sampled <- p.rec.Run(sampling) }()
	err := f(ctx)
	stop()
	return errors.Join(err, <-sampled, p.rec.Trace().WriteFile(p.path))
}
