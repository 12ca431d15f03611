package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/checkpoint"
	"hcclps/cmd/internal/program"
	"hcclps/ps"
	"hcclps/ps/restore"
)

func checkpointCommand() *cli.Command {
	return &cli.Command{
		Name:  "checkpoint",
		Usage: "keep jobs, look after what is kept, and bring it back",
		Description: "create and restore talk to a cluster; the others need only the folder.\n" +
			"Servers keep checkpoints when they are started with --checkpoint-dir, one folder for all of them.",
		Subcommands: []*cli.Command{
			createCommand(), listCommand(), verifyCommand(), deleteCommand(), restoreCommand(), exportCommand(), importCommand(),
		},
	}
}

// jsonFlag is on every command that prints.
func jsonFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "for machines"} }

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "show the checkpoints of a folder", ArgsUsage: "DIR", Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			dir, _, err := folderArgs(c, 0)
			if err != nil {
				return err
			}
			return withFolder(dir, func(s *checkpoint.Store) error {
				all, err := s.List(c.Context)
				if err == nil && len(all) == 0 {
					err = checkpointFolder(dir)
				}
				if err != nil && len(all) == 0 {
					return err
				}
				if c.Bool("json") {
					return errors.Join(json.NewEncoder(c.App.Writer).Encode(all), err)
				}
				return errors.Join(showList(c.App.Writer, all), err)
			})
		},
	}
}

// checkpointFolder refuses a folder that has files, but none of checkpoints. One that is empty, or has hidden files alone, may get some.
func checkpointFolder(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(all, func(e os.DirEntry) bool { return checkpoint.IsFile(e.Name()) }) {
		return err
	}
	for _, e := range all {
		if name := e.Name(); name[0] != '.' && name != "lost+found" {
			return fmt.Errorf("%s is no folder of checkpoints: it holds %s: give the one that servers, or train, have as --checkpoint-dir", dir, name)
		}
	}
	return nil
}

func showList(w io.Writer, all []*checkpoint.Manifest) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tJOB\tSTEP\tMADE\tKIND\tSHARDS\tTABLES\tROWS\tWRITTEN")
	for _, m := range all {
		kind := "full"
		if m.Base != nil {
			kind = fmt.Sprintf("delta to %d", m.Base.ID)
		}
		var rows uint64
		for _, t := range m.Tables {
			rows += m.Rows(t.ID)
		}
		var written int64
		for _, p := range m.Parts {
			written += p.New
		}
		fmt.Fprintf(tw, "%d\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\n", m.ID, m.Job, m.Step, m.Created.Format(time.DateTime), kind, m.Shards, len(m.Tables), rows, written)
	}
	return tw.Flush()
}

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "read every byte of checkpoints; none named: of all", ArgsUsage: "DIR [ID...]", Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			dir, ids, err := folderArgs(c, -1)
			if err != nil {
				return err
			}
			return withFolder(dir, func(s *checkpoint.Store) error {
				if all, err := s.List(c.Context); len(ids) == 0 && len(all) == 0 && err == nil {
					return fmt.Errorf("verify %s: %w: the folder has none", dir, checkpoint.ErrNotFound)
				}
				bar := newBar(c, "verify")
				got, err := s.Verify(c.Context, func(v checkpoint.Verified) { bar.set(v.Bytes, v.Total) }, ids...)
				bar.end()
				if c.Bool("json") {
					return errors.Join(json.NewEncoder(c.App.Writer).Encode(got), err)
				}
				if err == nil {
					fmt.Fprintf(c.App.Writer, "%d checkpoints, %d packs, %d chunks, %d bytes: good\n", got.Checkpoints, got.Packs, got.Chunks, got.Bytes)
				}
				return err
			})
		},
	}
}

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: "remove checkpoints", ArgsUsage: "DIR ID...",
		Description: "The space comes back with the next checkpoint of the cluster, or at once with --collect,\n" +
			"which is right only while no server writes a checkpoint into the folder.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "collect", Usage: "remove files that no checkpoint needs now"}},
		Action: func(c *cli.Context) error {
			dir, ids, err := folderArgs(c, -1)
			if err != nil {
				return err
			}
			if len(ids) == 0 && !c.Bool("collect") {
				return program.Usage("which checkpoints? give their ids behind the folder")
			}
			return withFolder(dir, func(s *checkpoint.Store) error {
				slices.Sort(ids)
				ids = slices.Compact(ids)
				if err := deletable(c.Context, s, ids); err != nil {
					return err
				}
				for _, id := range slices.Backward(ids) { // deltas before what they stand on
					if err := s.Delete(c.Context, id); err != nil {
						return err
					}
					fmt.Fprintf(c.App.Writer, "checkpoint %d is deleted\n", id)
				}
				if !c.Bool("collect") {
					return nil
				}
				got, err := s.Collect(c.Context, ^uint64(0))
				fmt.Fprintf(c.App.Writer, "%d files, %d bytes removed\n", got.Files, got.Bytes)
				return err
			})
		},
	}
}

// deletable tells whether all of them are there, and nothing that stays stands on one.
func deletable(ctx context.Context, s *checkpoint.Store, ids []uint64) error {
	all, err := s.List(ctx)
	if err != nil {
		return nil //nolint:nilerr // what is damaged is to be deleted too
	}
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(m *checkpoint.Manifest) bool { return m.ID == id }) {
			return fmt.Errorf("delete checkpoint %d: %w: none is deleted", id, checkpoint.ErrNotFound)
		}
	}
	for _, m := range all {
		if m.Base != nil && slices.Contains(ids, m.Base.ID) && !slices.Contains(ids, m.ID) {
			return fmt.Errorf("delete checkpoint %d: checkpoint %d stands on it: none is deleted", m.Base.ID, m.ID)
		}
	}
	return nil
}

func exportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write tables for PyTorch, numpy and others: safetensors", ArgsUsage: "DIR[@ID] FOLDER",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "table", Usage: "`NAME` of a table; default: all"},
			&cli.BoolFlag{Name: "slots", Usage: "optimizer slots too, and each row's step and sightings"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 {
				return program.Usage("want DIR or DIR@ID, and the folder to write")
			}
			return withCheckpoint(c.Context, c.Args().Get(0), func(ck *checkpoint.Checkpoint) error {
				bar := newBar(c, "export")
				var rows int64
				for _, t := range ck.Manifest().Tables {
					rows += int64(ck.Manifest().Rows(t.ID))
				}
				m, err := ck.Export(c.Context, c.Args().Get(1), checkpoint.ExportOptions{
					Tables: exported(c.StringSlice("table"), ck.Manifest()), Slots: c.Bool("slots"), Initial: restore.Initial,
					Progress: func(done uint64) { bar.set(int64(done), rows) },
				})
				bar.end()
				switch {
				case err != nil:
					return err
				case c.Bool("json"):
					return json.NewEncoder(c.App.Writer).Encode(m)
				}
				fmt.Fprintf(c.App.Writer, "%d tables of checkpoint %d, job %s, step %d in %s\n", len(m.Tables), m.Checkpoint, m.Job, m.Step, c.Args().Get(1))
				return nil
			})
		},
	}
}

// exported are the tables that were asked for, or all that a model has: not what
// servers remember beside.
func exported(names []string, m *checkpoint.Manifest) []string {
	if len(names) > 0 {
		return names
	}
	for _, t := range m.Tables {
		if restore.OfModel(t) {
			names = append(names, t.Name)
		}
	}
	return names
}

func importCommand() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "look whether tensors can be loaded, and say how", ArgsUsage: "FOLDER|FILE", Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return program.Usage("want a folder that export has written, or a file of tensors")
			}
			in, err := checkpoint.OpenImport(c.Args().First())
			if err != nil {
				return err
			}
			defer in.Close() //nolint:errcheck // only read
			if err := in.Verify(c.Context); err != nil {
				return err
			}
			m := in.Manifest()
			for _, t := range m.Tables { // every byte is looked at
				for _, err := range in.Rows(c.Context, t.Name) {
					if err != nil {
						return err
					}
				}
			}
			if c.Bool("json") {
				return json.NewEncoder(c.App.Writer).Encode(m)
			}
			tw := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "TABLE\tSHAPE\tDIM\tROWS\tSLOTS")
			for _, t := range m.Tables {
				fmt.Fprintf(tw, "%s\t%v\t%d\t%d\t%v\n", t.Name, t.Shape, t.Dim, t.Rows, t.SlotsName != "")
			}
			if err := tw.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(c.App.Writer, "\nA new job begins with them by: ps-worker train --load %s ...\n", c.Args().First())
			return nil
		},
	}
}

// folderArgs reads DIR and ids; want is how many ids, -1: any.
func folderArgs(c *cli.Context, want int) (dir string, ids []uint64, err error) {
	if !c.Args().Present() {
		return "", nil, program.Usage("which folder? give the one that servers have as --checkpoint-dir")
	}
	for _, a := range c.Args().Tail() {
		if strings.HasPrefix(a, "-") {
			return "", nil, program.Usage("%s: flags go before the folder", a)
		}
		id, err := strconv.ParseUint(a, 10, 64)
		if err != nil {
			return "", nil, program.Usage("checkpoint %q: want a number, as list shows it", a)
		}
		ids = append(ids, id)
	}
	if want >= 0 && len(ids) != want {
		return "", nil, program.Usage("%d arguments behind the folder, want %d", len(ids), want)
	}
	return c.Args().First(), ids, nil
}

// withFolder opens a folder that is there.
func withFolder(dir string, do func(*checkpoint.Store) error) (err error) {
	s, err := ps.OpenCheckpoints(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

func withCheckpoint(ctx context.Context, source string, do func(*checkpoint.Checkpoint) error) error {
	from, err := restore.ParseSource(source)
	if err != nil {
		return &program.UsageError{Err: err}
	}
	c, closing, err := from.Open(ctx, "")
	if err != nil {
		return err
	}
	return errors.Join(do(c), closing())
}
