package raftgroup

import (
	"context"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// bridge sends raft's own log to a slog.Logger at debug level: what operators
// need to know is logged by this package.
func bridge(ctx context.Context, l *slog.Logger) hclog.Logger {
	level := hclog.Off
	if l.Enabled(ctx, slog.LevelDebug) {
		level = hclog.Debug
	}
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: level, Output: lines{l}, DisableTime: true})
}

// lines is a writer whose lines are records.
type lines struct{ log *slog.Logger }

func (w lines) Write(b []byte) (int, error) {
	w.log.Debug("raft", "line", strings.TrimSpace(string(b)))
	return len(b), nil
}
