package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/worker/dataset"
)

func featuresCommand() *cli.Command {
	return &cli.Command{
		Name:  "features",
		Usage: "write or check a features file",
		Subcommands: []*cli.Command{
			{
				Name:  "init",
				Usage: "write the features file that the data suggests",
				Flags: slices.Concat(dataFlags(), []cli.Flag{
					&cli.StringFlag{Name: "out", Usage: "`FILE` to write, which must not exist; default: standard output"},
				}, program.LogFlags("warn"), program.ConfigFlags()),
				Action: initFeatures,
			},
			{
				Name:  "check",
				Usage: "count rows, missing values, ids and hash collisions",
				Flags: slices.Concat(dataFlags(), []cli.Flag{
					&cli.BoolFlag{Name: "json", Usage: "for machines"},
				}, program.LogFlags("warn"), program.ConfigFlags()),
				Action: checkFeatures,
			},
		},
	}
}

func featuresConfig(c *cli.Context) (dataset.Config, error) {
	if err := program.NoArguments(c); err != nil {
		return dataset.Config{}, err
	}
	log, err := program.Logger(c)
	if err != nil {
		return dataset.Config{}, err
	}
	return dataConfig(c, log)
}

func initFeatures(c *cli.Context) error {
	cfg, err := featuresConfig(c)
	if err != nil {
		return err
	}
	s, err := dataset.Inspect(cfg)
	if err != nil {
		return err
	}
	text, err := s.YAML()
	if err != nil {
		return err
	}
	path := c.String("out")
	if path == "" {
		_, err = c.App.Writer.Write(text)
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("write features file: %s is there, and may have been changed by hand: remove it, or name another with --out", path)
	}
	if err != nil {
		return fmt.Errorf("write features file: %w", err)
	}
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func checkFeatures(c *cli.Context) error {
	cfg, err := featuresConfig(c)
	if err != nil {
		return err
	}
	r, err := dataset.Check(cfg)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(r)
	}
	return renderCheck(c.App.Writer, r)
}

func renderCheck(w io.Writer, r *dataset.Report) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "rows\t%d, label mean %.4f\n", r.Rows, r.Label.Mean)
	if r.Bad > 0 {
		fmt.Fprintf(tw, "malformed\t%d, the first: %v\n", r.Bad, r.FirstBad)
	}
	for i, n := range r.Joined {
		fmt.Fprintf(tw, "side table %d\t%d rows without a match\n", i, n)
	}
	fmt.Fprintln(tw, "\nFEATURE\tKIND\tMISSING\tIDS\tDISTINCT\tCOLLISIONS\tMIN\tMEAN\tMAX")
	for _, f := range r.Features {
		about := ""
		if f.Estimated {
			about = "~"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s%d\t%s%d", f.Name, f.Kind, f.Missing, f.Entries, about, f.Distinct, about, f.Collisions)
		if f.Numbers.Count > 0 {
			fmt.Fprintf(tw, "\t%.4g\t%.4g\t%.4g\n", f.Numbers.Min, f.Numbers.Mean, f.Numbers.Max)
		} else {
			fmt.Fprint(tw, "\t\t\t\n") // or the columns before would not line up
		}
	}
	return tw.Flush()
}
