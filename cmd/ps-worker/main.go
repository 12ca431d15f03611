// Command ps-worker trains models on a cluster of parameter servers.
package main

import (
	"os"

	"hcclps/cmd/internal/program"
)

func main() { os.Exit(program.Main(app())) }
