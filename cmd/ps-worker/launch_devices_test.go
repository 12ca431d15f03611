package main

import (
	"strings"
	"testing"
)

func TestLaunchDevicesAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--devices 0":                      "1 devices for 2 processes",
		"--devices 0-x":                    `"0-x"`,
		"--devices 3-1":                    `"3-1"`,
		"--devices 0-1 --server-devices 1": "device 1 is named twice",
		"--devices 4,4":                    "device 4 is named twice",
		"--transport pigeon":               "unknown --transport",
	} {
		all := append(append([]string{"launch", "-n", "2", "--servers", "1"}, strings.Fields(args)...), "--", "true")
		if code, _, stderr := command(t.Context(), all...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("launch %s: exit %d, %q", args, code, stderr)
		}
	}
}
