// Package program is what the two programs share: exit codes, nearest names
// for what was mistyped, the configuration file, logging and signals.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"hcclps/ps/optim"
)

// Version is what `version` prints and servers show in their status.
const Version = "0.1.0"

// Exit codes.
const (
	exitGood   = 0
	exitFailed = 1
	exitUsage  = 2
)

// UsageError is a mistake of whoever typed the command.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Usage makes a UsageError.
func Usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Main runs an app until it ends or a signal asks it to, and is the exit code.
// The first Ctrl-C drains; the second kills.
func Main(app *cli.App) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Run(ctx, app, os.Args, os.Stdout, os.Stderr)
}

// Run is Main without the process around it. Of stdout and stderr each is written by one goroutine at a time, unless they are the same.
func Run(ctx context.Context, app *cli.App, args []string, stdout, stderr io.Writer) int {
	app.Writer, app.ErrWriter = share(stdout), share(stderr)
	prepare(app)
	err := app.RunContext(ctx, args)
	var usage *UsageError
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %v\n", app.Name, err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "%s: %v\n", app.Name, err)
		return exitFailed
	}
}

// prepare makes every command answer unknown flags and commands with the
// nearest valid name, and read its configuration file.
func prepare(app *cli.App) {
	app.HideHelpCommand = true
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.OnUsageError = onUsage
	app.Suggest = false
	app.Action = func(c *cli.Context) error {
		if c.Args().Present() {
			return Usage("unknown command %q%s", c.Args().First(), nearest(c.Args().First(), names(app.Commands)))
		}
		return cli.ShowAppHelp(c)
	}
	prepareAll(app.Commands)
}

func prepareAll(cmds []*cli.Command) {
	for _, cmd := range cmds {
		cmd.OnUsageError = onUsage
		cmd.HideHelpCommand = true
		cmd.Before = loadConfig
		for _, f := range cmd.Flags {
			sayDefault(f)
		}
		if len(cmd.Subcommands) > 0 {
			cmd.Action = unknownSubcommand
			cmd.ArgsUsage = "COMMAND"
			prepareAll(cmd.Subcommands)
		}
	}
}

// sayDefault shows a default that is no plain value, written "...; default: TEXT"
// in a flag's usage, where help shows the others.
func sayDefault(f cli.Flag) {
	cut := func(usage, text *string) {
		if before, after, ok := strings.Cut(*usage, "; default: "); ok {
			*usage, *text = before, after
		}
	}
	switch f := f.(type) {
	case *cli.IntFlag:
		cut(&f.Usage, &f.DefaultText)
	case *cli.Float64Flag:
		cut(&f.Usage, &f.DefaultText)
	case *cli.DurationFlag:
		cut(&f.Usage, &f.DefaultText)
	case *cli.StringFlag:
		cut(&f.Usage, &f.DefaultText)
	}
}

func unknownSubcommand(c *cli.Context) error {
	given, valid := c.Args().First(), names(c.Command.Subcommands)
	if given == "" {
		return Usage("%s: which command? want one of %s (--help says what they do)", c.Command.Name, strings.Join(valid, ", "))
	}
	return Usage("%s: unknown command %q: want one of %s%s", c.Command.Name, given, strings.Join(valid, ", "), nearest(given, valid))
}

func names(cmds []*cli.Command) []string {
	var out []string
	for _, c := range cmds {
		if !c.Hidden {
			out = append(out, c.Name)
		}
	}
	return out
}

func onUsage(c *cli.Context, err error, _ bool) error {
	const undefined = "flag provided but not defined: "
	if name, ok := strings.CutPrefix(err.Error(), undefined); ok {
		var valid []string
		for _, f := range flags(c) {
			valid = append(valid, f.Names()[0])
		}
		given := strings.TrimLeft(name, "-")
		if n := optim.Close(given, valid); n != "" {
			return Usage("unknown flag --%s; did you mean --%s?", given, n)
		}
		return Usage("unknown flag --%s: --help shows those there are", given)
	}
	return &UsageError{err}
}

func flags(c *cli.Context) []cli.Flag {
	if c.Command != nil && len(c.Command.Flags) > 0 {
		return c.Command.Flags
	}
	return c.App.Flags
}

func nearest(name string, valid []string) string {
	if n := optim.Close(name, valid); n != "" {
		return fmt.Sprintf("; did you mean %s?", n)
	}
	return ""
}

// OneOf checks a flag's value against the valid ones.
func OneOf(flag, value string, valid ...string) error {
	if slices.Contains(valid, value) {
		return nil
	}
	return Usage("unknown %s %q: want one of %s%s", flag, value, strings.Join(valid, ", "), nearest(value, valid))
}

// Sorted lists names for an error.
func Sorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// VersionCommand prints the version.
func VersionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		Action: func(c *cli.Context) error {
			if err := NoArguments(c); err != nil {
				return err
			}
			fmt.Fprintf(c.App.Writer, "%s %s\n", c.App.Name, Version)
			return nil
		},
	}
}

// NoArguments refuses what is left over after the flags.
func NoArguments(c *cli.Context) error {
	if c.Args().Present() {
		return Usage("%s takes no argument, got %q", c.Command.Name, c.Args().First())
	}
	return nil
}
