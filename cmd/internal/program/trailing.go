package program

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// TrailingFlags takes flags that stand behind a command's arguments, and returns the arguments.
func TrailingFlags(c *cli.Context) ([]string, error) {
	args := c.Args().Slice()
	first := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--") })
	if first < 0 {
		return args, nil
	}
	for rest := args[first:]; len(rest) > 0; {
		name, value, given := strings.Cut(strings.TrimPrefix(rest[0], "--"), "=")
		i := slices.IndexFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if i < 0 || !strings.HasPrefix(rest[0], "--") {
			var valid []string
			for _, f := range c.Command.Flags {
				valid = append(valid, "--"+f.Names()[0])
			}
			return nil, Usage("%s: unknown flag or argument %q%s", c.Command.Name, rest[0], nearest("--"+name, valid))
		}
		rest = rest[1:]
		if _, isBool := c.Command.Flags[i].(*cli.BoolFlag); isBool && !given {
			value = "true"
		} else if !given {
			if len(rest) == 0 {
				return nil, Usage("%s: --%s needs a value", c.Command.Name, name)
			}
			value, rest = rest[0], rest[1:]
		}
		if err := c.Set(name, value); err != nil {
			return nil, Usage("%s: --%s %s: %w", c.Command.Name, name, value, err)
		}
	}
	return args[:first], nil
}
