package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"hcclps/checkpoint"
	"hcclps/cmd/internal/program"
	"hcclps/worker"
)

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:  "export",
		Usage: "write a model or a checkpoint as tensors for PyTorch, numpy and others: safetensors",
		Description: "ps-worker export --load DIR[@ID] --to FOLDER\n" +
			"--load of train, eval and predict takes the folder again, and train the file of tensors in it alone.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "load", Usage: "the model in `DIR`, or its newest checkpoint there, or DIR@ID", EnvVars: program.Env("load")},
			&cli.StringFlag{Name: "to", Usage: "a new `FOLDER`"},
			&cli.StringSliceFlag{Name: "table", Usage: "`NAME` of a table; default: all"},
			&cli.BoolFlag{Name: "slots", Usage: "optimizer slots too, with which training goes on as if it had not stopped"},
			&cli.BoolFlag{Name: "json", Usage: "for machines"},
		}, program.ConfigFlags()...),
		Action: export,
	}
}

func export(c *cli.Context) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	if c.String("load") == "" || c.String("to") == "" {
		return program.Usage("--load and --to are needed: what to export, and where")
	}
	o := checkpoint.ExportOptions{Slots: c.Bool("slots")}
	if c.IsSet("table") {
		o.Tables = c.StringSlice("table")
	}
	m, err := worker.Export(c.Context, c.String("load"), c.String("to"), o)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(m)
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	for _, t := range m.Tables {
		if t.Keys == "" {
			fmt.Fprintf(tw, "%s\t%v\n", t.Values, t.Shape)
			continue
		}
		fmt.Fprintf(tw, "%s, %s\t[%d %d]\n", t.Keys, t.Values, t.Rows, t.Dim)
	}
	return tw.Flush()
}
