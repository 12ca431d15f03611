package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
)

// devices are the NPUs of a local job: one a process, nil without.
type devices struct {
	workers, servers []string
}

// parseDevices reads --devices and --server-devices, and refuses two processes
// on one device.
func parseDevices(c *cli.Context) (d devices, err error) {
	if d.workers, err = deviceList(c, "devices", c.Int("workers")); err != nil {
		return d, err
	}
	if d.servers, err = deviceList(c, "server-devices", c.Int("servers")); err != nil {
		return d, err
	}
	all := slices.Sorted(slices.Values(slices.Concat(d.workers, d.servers)))
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			return d, program.Usage("device %s is named twice in --devices and --server-devices: a device serves one process", all[i])
		}
	}
	return d, nil
}

// deviceList reads numbers and ranges, 0-3,6, of which the first n are used.
func deviceList(c *cli.Context, flag string, n int) ([]string, error) {
	s := c.String(flag)
	if s == "" {
		return nil, nil
	}
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 0 || last < first || last-first > 1<<16 {
			return nil, program.Usage("--%s %s: %q: want numbers and ranges, such as 0-3,6", flag, s, part)
		}
		for i := first; i <= last; i++ {
			out = append(out, strconv.Itoa(i))
		}
	}
	if len(out) < n {
		return nil, program.Usage("--%s %s: %d devices for %d processes", flag, s, len(out), n)
	}
	return out[:n], nil
}

// transportEnv is the environment that says to child i what carries its bulk.
func (l *launcher) transportEnv(devices []string, i int) []string {
	var env []string
	for _, flag := range []string{"transport", "tls-cert", "tls-key", "tls-ca"} {
		value := l.c.String(flag)
		if strings.HasPrefix(flag, "tls-") && value != "" {
			if abs, err := filepath.Abs(value); err == nil {
				value = abs
			}
		}
		if value != "" {
			env = append(env, program.Env(flag)[0]+"="+value)
		}
	}
	if l.c.Bool("no-fallback") {
		env = append(env, program.Env("no-fallback")[0]+"=true")
	}
	if devices != nil {
		env = append(env, program.Env("device")[0]+"="+devices[i])
	}
	return env
}
