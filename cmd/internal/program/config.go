package program

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"
)

// ConfigFlags are on every command with flags: a YAML file of flag names, and
// a look at the effective values. Precedence: flag, environment, file, default.
func ConfigFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "YAML `FILE` of flag values", EnvVars: []string{"HCCLPS_CONFIG"}},
		&cli.BoolFlag{Name: "print-config", Usage: "print the effective configuration and exit"},
	}
}

// loadConfig fills flags that neither the command line nor the environment set.
func loadConfig(c *cli.Context) error {
	path := c.String("config")
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(b, &values); err != nil {
		return Usage("read --config %s: %w", path, err)
	}
	var valid []string
	for _, f := range c.Command.Flags {
		valid = append(valid, f.Names()[0])
	}
	for name, v := range values {
		if !slices.Contains(valid, name) || name == "config" {
			return Usage("%s: unknown flag %q%s", path, name, nearest(name, valid))
		}
		if list, ok := v.([]any); c.IsSet(name) || ok && len(list) == 0 {
			continue
		}
		if err := c.Set(name, text(v)); err != nil {
			return Usage("%s: %s: %w", path, name, err)
		}
	}
	return nil
}

// text writes a YAML value as it would stand on a command line.
func text(v any) string {
	if list, ok := v.([]any); ok {
		var parts []string
		for _, e := range list {
			parts = append(parts, fmt.Sprint(e))
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v)
}

// PrintedConfig prints the effective values when --print-config asks for it,
// and says whether it did. Arguments are refused where the command says nothing
// of them in ArgsUsage.
func PrintedConfig(c *cli.Context) (bool, error) {
	if !c.Bool("print-config") {
		return false, nil
	}
	if c.Command.ArgsUsage == "" {
		if err := NoArguments(c); err != nil {
			return true, err
		}
	}
	out := map[string]any{}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		switch name {
		case "config", "print-config", "help":
			continue
		}
		if s, ok := c.Value(name).(cli.StringSlice); ok {
			out[name] = s.Value()
		} else {
			out[name] = fmt.Sprint(c.Value(name))
		}
	}
	b, err := yaml.Marshal(out)
	if err != nil {
		return true, err
	}
	_, err = c.App.Writer.Write(b)
	return true, err
}

// Env is the environment twin of a flag: HCCLPS_LOG_DIR of log-dir.
func Env(flag string) []string {
	return []string{"HCCLPS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
}
