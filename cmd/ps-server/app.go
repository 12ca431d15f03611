package main

import (
	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/doctor"
	"hcclps/cmd/internal/program"
)

func app() *cli.App {
	return &cli.App{
		Name:  "ps-server",
		Usage: "a Raft-replicated parameter server",
		Commands: []*cli.Command{
			serveCommand(), statusCommand(), tablesCommand(), rowCommand(), checkpointCommand(), certsCommand(),
			doctor.Command(true, serveCommand().Flags), program.VersionCommand(),
		},
	}
}
