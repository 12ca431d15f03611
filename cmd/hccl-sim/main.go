// Hccl-sim builds the simulator of the CANN libraries, for who develops without an NPU:
//
//	go run ./cmd/hccl-sim DIR
//	HCCLPS_CANN_LIB=DIR/libhccl_sim.so ps-worker doctor
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"hcclps/p2p/hccl/sim"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" || os.Args[1][0] == '-' {
		fmt.Fprintln(os.Stderr, "hccl-sim: want one argument, the folder to build into")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	lib, err := build(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hccl-sim:", err)
		os.Exit(1)
	}
	fmt.Println(lib)
}

func build(ctx context.Context, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return sim.Build(ctx, dir)
}
