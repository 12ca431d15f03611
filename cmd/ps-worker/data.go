package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// dataFlags say what the data is and how to read it.
func dataFlags() []cli.Flag {
	env := program.Env
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Value: dataset.FormatLibsvm, Usage: strings.Join(dataset.Formats(), ", "), EnvVars: env("format")},
		&cli.StringSliceFlag{Name: "data", Usage: "data `FILES`, read as one stream"},
		&cli.StringFlag{Name: "features", Usage: "features `FILE`; default: inferred from the first rows", EnvVars: env("features")},
		&cli.StringFlag{Name: "label", Usage: "`COL`, the column of the label; COL>=T is 1 from T on, COL=V,W is 1 for these values; default: that of the format", EnvVars: env("label")},
		&cli.StringFlag{Name: "header", Value: "auto", Usage: "whether csv and tsv begin with the names of columns: auto, yes or no", EnvVars: env("header")},
		&cli.StringFlag{Name: "separator", Usage: "between columns; default: that of the format", EnvVars: env("separator")},
		&cli.IntFlag{Name: "hash-bits", Usage: "ids are hashed to so many bits; default: 64", EnvVars: env("hash-bits")},
		&cli.StringFlag{Name: "bad-rows", Value: "fail", Usage: "fail on a malformed row, or skip it", EnvVars: env("bad-rows")},
	}
}

// dataConfig reads the flags of dataFlags.
func dataConfig(c *cli.Context, log *slog.Logger) (dataset.Config, error) {
	cfg := dataset.Config{
		Format: c.String("format"), Paths: c.StringSlice("data"), Separator: c.String("separator"), HashBits: c.Int("hash-bits"),
		SkipBad: c.String("bad-rows") == "skip", Logger: log,
	}
	if err := program.OneOf("--format", cfg.Format, dataset.Formats()...); err != nil {
		return cfg, err
	}
	if err := program.OneOf("--bad-rows", c.String("bad-rows"), "fail", "skip"); err != nil {
		return cfg, err
	}
	if err := program.OneOf("--header", c.String("header"), "auto", "yes", "no"); err != nil {
		return cfg, err
	}
	if n := cfg.HashBits; c.IsSet("hash-bits") && (n < 1 || n > 64) {
		return cfg, program.Usage("--hash-bits %d: want 1 to 64", n)
	}
	if h := c.String("header"); h != "auto" {
		cfg.Header = h
	}
	if len(cfg.Paths) == 0 {
		return cfg, program.Usage("--data is needed: the data files")
	}
	var err error
	if cfg.Label, err = dataset.ParseLabel(c.String("label")); err != nil {
		return cfg, &program.UsageError{Err: err}
	}
	if err := fitsFormat(c, cfg); err != nil {
		return cfg, err
	}
	if f := c.String("features"); f != "" {
		if cfg.Schema, err = dataset.ReadSchema(f); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// fitsFormat refuses flags that the format has no use for.
func fitsFormat(c *cli.Context, cfg dataset.Config) error {
	if slices.Contains([]string{dataset.FormatCSV, dataset.FormatTSV, dataset.FormatCriteo, dataset.FormatRatings}, cfg.Format) {
		return nil
	}
	for _, flag := range []string{"header", "separator", "hash-bits", "no-label"} {
		if c.IsSet(flag) {
			return program.Usage("--%s is for formats of columns, such as csv: --format is %s", flag, cfg.Format)
		}
	}
	if cfg.Label.Column != "" {
		return program.Usage("--label %s: format %s has no names of columns, its label comes first: want a rule alone, as >=T or =V,W", c.String("label"), cfg.Format)
	}
	return nil
}

// formatHint says what the data was read as, where nobody said and the first
// line does not fit.
func formatHint(c *cli.Context, err error) error {
	if row, ok := errors.AsType[*dataset.RowError](err); ok && row.Line == 1 && !c.IsSet("format") {
		return fmt.Errorf("%w: read as %s; for columns give --format csv", err, c.String("format"))
	}
	return err
}

// checkMetrics refuses metrics that nobody knows, or that are by a feature the
// data does not have.
func checkMetrics(flag string, schema *dataset.Schema, names ...string) error {
	var sparse []string
	for i := range schema.Features {
		if f := &schema.Features[i]; f.Ragged() {
			sparse = append(sparse, f.Name)
		}
	}
	for _, name := range names {
		if err := worker.CheckMetric(name); err != nil {
			return program.Usage("%s: %w", flag, err)
		}
		if _, feature, grouped := strings.Cut(name, ":"); grouped && !slices.Contains(sparse, feature) {
			return program.Usage("%s %s: the data has no sparse feature %q: want one of %s", flag, name, feature, strings.Join(sparse, ", "))
		}
	}
	return nil
}

// splitEvery reads every=N.
func splitEvery(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "every="))
	if err != nil || n < 2 || !strings.HasPrefix(s, "every=") {
		return 0, program.Usage("--split %s: want every=N, N at least 2", s)
	}
	return n, nil
}
