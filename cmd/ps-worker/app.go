package main

import (
	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/doctor"
	"hcclps/cmd/internal/program"
)

func app() *cli.App {
	return &cli.App{
		Name:     "ps-worker",
		Usage:    "train models on a cluster of parameter servers",
		Commands: []*cli.Command{trainCommand(), evalCommand(), predictCommand(), exportCommand(), launchCommand(), featuresCommand(), benchCommand(), topoCommand(), profileCommand(), doctor.Command(false, trainCommand().Flags), program.VersionCommand()},
	}
}
