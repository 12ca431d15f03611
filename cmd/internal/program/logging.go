package program

import (
	"log/slog"

	"github.com/urfave/cli/v2"
)

// LogFlags are on every command that logs; level is its default.
func LogFlags(level string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-level", Value: level, Usage: "debug, info, warn or error", EnvVars: Env("log-level")},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "text or json", EnvVars: Env("log-format")},
	}
}

// Logger writes to standard error as the flags say.
func Logger(c *cli.Context) (*slog.Logger, error) {
	var level slog.Level
	name := c.String("log-level")
	if err := OneOf("--log-level", name, "debug", "info", "warn", "error"); err != nil {
		return nil, err
	}
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return nil, &UsageError{err}
	}
	opt := &slog.HandlerOptions{Level: level}
	if err := OneOf("--log-format", c.String("log-format"), "text", "json"); err != nil {
		return nil, err
	}
	if c.String("log-format") == "json" {
		return slog.New(slog.NewJSONHandler(c.App.ErrWriter, opt)), nil
	}
	return slog.New(slog.NewTextHandler(c.App.ErrWriter, opt)), nil
}
