package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/hccl/acl"
)

// findServer is the given path, or ps-server beside this program, or in PATH.
func findServer(path string) (string, error) {
	if path != "" {
		return findProgram(path)
	}
	if self, err := os.Executable(); err == nil {
		if p, err := findProgram(filepath.Join(filepath.Dir(self), "ps-server")); err == nil {
			return p, nil
		}
	}
	p, err := findProgram("ps-server")
	if err != nil {
		return "", fmt.Errorf("%w: build it beside ps-worker (go build -o bin ./cmd/...) or name it with --ps-server", err)
	}
	return p, nil
}

func (l *launcher) server(i int) process {
	name := fmt.Sprintf("s%d", i+1)
	dir := filepath.Join(l.dir, name)
	args := []string{
		"serve", "--cluster", l.cluster, "--name", name, "--dir", dir, "--listen", l.addrs[i], "--servers", strings.Join(l.addrs, ","),
		"--replicas", strconv.Itoa(l.replicas()), "--shards", strconv.Itoa(l.c.Int("shards")), "--durability", l.c.String("durability"),
		"--log-budget", l.c.String("log-budget"), "--token-file", l.token, "--allow-same-host", "--log-level", l.c.String("log-level"), "--log-format", l.c.String("log-format"),
	}
	if memory := l.c.String("memory"); memory != "" {
		args = append(args, "--memory", memory)
	}
	args = append(args, l.checkpointArgs()...)
	if path := l.c.String("profile"); path != "" {
		args = append(args, "--profile", program.PartOf(path, name))
	}
	socket, _ := strings.CutPrefix(l.addrs[i], "unix:")
	if l.c.Bool("tcp") {
		socket = ""
	}
	return process{name: name, path: l.serverBin, args: args, env: append(foreign(os.Environ()), l.transportEnv(l.devices.servers, i)...), socket: socket}
}

// foreign is an environment without what would speak to our own programs, but of
// the machine: launch says it all itself.
func foreign(env []string) []string {
	return slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		machine := name == acl.EnvLib || name == "HCCLPS_NOSIMD"
		return strings.HasPrefix(name, "HCCLPS_") && !machine || slices.Contains([]string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"}, name)
	})
}

// replicas is what was asked for, or what so few servers can hold.
func (l *launcher) replicas() int {
	if n := l.c.Int("servers"); !l.c.IsSet("replicas") && n < 3 {
		return 1
	}
	return l.c.Int("replicas")
}

func (l *launcher) worker(rank, port int) process {
	env := append(foreign(os.Environ()),
		"RANK="+strconv.Itoa(rank), "LOCAL_RANK="+strconv.Itoa(rank), "WORLD_SIZE="+strconv.Itoa(l.c.Int("workers")),
		"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+strconv.Itoa(port),
		"HCCLPS_CLUSTER="+l.cluster, "HCCLPS_JOB="+l.job,
		fmt.Sprintf("HCCLPS_WORKER=worker-%d", rank), "HCCLPS_TOKEN_FILE="+l.token, reportDirEnv+"="+filepath.Join(l.dir, "reports"))
	if len(l.addrs) > 0 {
		env = append(env, "HCCLPS_SERVERS="+strings.Join(l.addrs, ","))
	}
	if at := l.meeting.address(); at != "" {
		env = append(env, program.Env("rendezvous")[0]+"="+at)
	}
	if path := l.c.String("profile"); path != "" {
		env = append(env, "HCCLPS_PROFILE="+path)
	}
	env = append(env, l.transportEnv(l.devices.workers, rank)...)
	return process{name: fmt.Sprintf("worker-%d", rank), path: l.command[0], args: l.command[1:], env: env, rank: rank, worker: true}
}
