package program

import (
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/p2p/backend"
)

// BulkFlags say what carries weights and gradients.
func BulkFlags() []cli.Flag {
	return append(
		TransportFlags(),
		&cli.StringFlag{Name: "device", Value: "none", Usage: "`NUMBER` of the NPU that this process owns, for hccl", EnvVars: Env("device")},
		&cli.IntFlag{Name: "hccl-pairs", Usage: "pairs that the device may serve, each with its own memory; others go by tcp; default: 64", EnvVars: Env("hccl-pairs")},
		&cli.IntFlag{Name: "hccl-buffer", Usage: "`MIB` of each of HCCL's two buffers of a pair; default: 16", EnvVars: Env("hccl-buffer")},
		&cli.BoolFlag{Name: "hccl-single-thread", Usage: "one thread makes all calls of the device, for libraries that take nothing else", EnvVars: Env("hccl-single-thread")},
	)
}

// TransportFlags are those of BulkFlags that are the same for all processes.
func TransportFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "transport", Value: string(backend.Auto), EnvVars: Env("transport"),
			Usage: strings.Join(backend.Transports(), ", ") + ": what carries gradients and rows where both ends take it, else tcp does; auto is shm within a host, hccl between NPUs of two hosts, else tcp; " +
				"auto=measure times each when a pair is made and keeps the fastest, where neither end wants one by name",
		},
		&cli.BoolFlag{Name: "no-fallback", Usage: "fail where --transport cannot be had, instead of going by tcp", EnvVars: Env("no-fallback")},
	}
}

// Bulk is what BulkFlags describe.
func Bulk(c *cli.Context) (backend.Config, error) {
	if err := OneOf("--transport", c.String("transport"), backend.Transports()...); err != nil {
		return backend.Config{}, err
	}
	cfg := backend.Config{Transport: backend.Transport(c.String("transport")), NoFallback: c.Bool("no-fallback"), Device: c.String("device")}
	cfg.Pairs, cfg.BufferMiB, cfg.SingleThread = c.Int("hccl-pairs"), c.Int("hccl-buffer"), c.Bool("hccl-single-thread")
	if err := cfg.Validate(); err != nil {
		return cfg, &UsageError{err}
	}
	return cfg, nil
}
