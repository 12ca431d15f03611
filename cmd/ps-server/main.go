// Command ps-server is a parameter server: one member of a cluster.
package main

import (
	"os"

	"hcclps/cmd/internal/program"
)

func main() { os.Exit(program.Main(app())) }
