package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/p2p/hccl/acl"
	"hcclps/ps/optim"
)

// FlagVariables are the environment twins of all flags of a program.
func FlagVariables(app *cli.App) []string {
	var out []string
	var walk func(cmds []*cli.Command)
	walk = func(cmds []*cli.Command) {
		for _, cmd := range cmds {
			for _, f := range cmd.Flags {
				if d, ok := f.(cli.DocGenerationFlag); ok {
					out = append(out, d.GetEnvVars()...)
				}
			}
			walk(cmd.Subcommands)
		}
	}
	walk(app.Commands)
	slices.Sort(out)
	return slices.Compact(out)
}

// Variables are those of both programs: the twins of their flags, which tests of the programs compare with this list, and what
// is read without a flag.
func Variables() []string {
	return []string{
		acl.EnvLib, "HCCLPS_NOSIMD", "HCCLPS_REPORT_DIR",
		"HCCLPS_ACCUMULATE", "HCCLPS_ADMIT", "HCCLPS_ADVERTISE", "HCCLPS_ALGO", "HCCLPS_MAX_REBUILDS", "HCCLPS_MEASURE", "HCCLPS_MODE", "HCCLPS_REDUCE_ORDER", "HCCLPS_ALLOW_SAME_HOST", "HCCLPS_BAD_ROWS", "HCCLPS_BATCH",
		"HCCLPS_BENCH_ALGO", "HCCLPS_BENCH_CHECKSUM", "HCCLPS_BENCH_DEVICES", "HCCLPS_BENCH_RANKS", "HCCLPS_BENCH_REDUCE_ORDER", "HCCLPS_BENCH_ROUNDS", "HCCLPS_BENCH_SIZES", "HCCLPS_BENCH_STRIPES",
		"HCCLPS_BENCH_TIME", "HCCLPS_BENCH_TRANSPORT", "HCCLPS_CHECKPOINT_DIR", "HCCLPS_CHECKPOINT_EVERY", "HCCLPS_CHECKPOINT_KEEP", "HCCLPS_CHECKPOINT_RATE",
		"HCCLPS_CLIP", "HCCLPS_CLUSTER", "HCCLPS_COMPRESS", "HCCLPS_COMPRESS_PULL", "HCCLPS_CONFIG", "HCCLPS_DATA", "HCCLPS_DELAY",
		"HCCLPS_DEVICE", "HCCLPS_DEVICES", "HCCLPS_DIM", "HCCLPS_DIR", "HCCLPS_DOCTOR_TIMEOUT", "HCCLPS_DURABILITY",
		"HCCLPS_EARLY_STOP", "HCCLPS_EMBEDDED", "HCCLPS_EPOCHS", "HCCLPS_EVAL_EVERY", "HCCLPS_EVICT", "HCCLPS_FEATURES", "HCCLPS_FLIGHTS", "HCCLPS_FORMAT",
		"HCCLPS_HASH_BITS", "HCCLPS_HCCL_BUFFER", "HCCLPS_HCCL_PAIRS", "HCCLPS_HCCL_SINGLE_THREAD", "HCCLPS_HEADER", "HCCLPS_INSECURE", "HCCLPS_JOB", "HCCLPS_JSON", "HCCLPS_KEEP_BEST", "HCCLPS_LABEL",
		"HCCLPS_LAUNCH_SERVERS", "HCCLPS_LISTEN", "HCCLPS_LOAD", "HCCLPS_LOG_BUDGET", "HCCLPS_LOG_DIR", "HCCLPS_LOG_FORMAT",
		"HCCLPS_LOG_LEVEL", "HCCLPS_LR", "HCCLPS_MEMORY", "HCCLPS_METRICS", "HCCLPS_MODEL", "HCCLPS_NAME", "HCCLPS_NO_FALLBACK",
		"HCCLPS_OPTIMIZER", "HCCLPS_OP_TIMEOUT", "HCCLPS_PARTS", "HCCLPS_PEER_HEARTBEAT", "HCCLPS_PEER_SUSPECT",
		"HCCLPS_PREFETCH", "HCCLPS_PROFILE", "HCCLPS_RANK", "HCCLPS_REDUCE", "HCCLPS_RENDEZVOUS", "HCCLPS_REPLICAS", "HCCLPS_RESTORE", "HCCLPS_RESTORE_WORLD", "HCCLPS_RESUME", "HCCLPS_SAVE", "HCCLPS_SCHEDULE",
		"HCCLPS_SEED", "HCCLPS_SEPARATOR", "HCCLPS_SERVERS", "HCCLPS_SERVER_DEVICES", "HCCLPS_SHARDS", "HCCLPS_SPLIT",
		"HCCLPS_STEP_DELAY", "HCCLPS_SYNC", "HCCLPS_TEST", "HCCLPS_TLS_CA", "HCCLPS_TLS_CERT", "HCCLPS_TLS_KEY",
		"HCCLPS_TOKEN_FILE", "HCCLPS_TOPO_TIME", "HCCLPS_TRANSPORT", "HCCLPS_WORKER", "HCCLPS_WORKERS", "HCCLPS_WORLD",
	}
}

// checkOwnVariables finds mistyped variables of this project.
func checkOwnVariables(_ context.Context, p *patient) []Finding {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(p.vars)) {
		if strings.HasPrefix(name, "HCCLPS_") && !slices.Contains(p.Variables, name) {
			f := found(Warn, name+" is read by neither program: it has no effect", "")
			if n := optim.Nearest(name, p.Variables); n != "" {
				f.Do = "the nearest name that is read: " + n
			}
			out = append(out, f)
		}
	}
	return out
}
