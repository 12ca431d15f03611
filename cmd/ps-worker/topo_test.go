package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/p2p/backend"
	"hcclps/ps"
)

func TestTopoMeasuresProcessesAndServers(t *testing.T) {
	network, err := backend.OpenSockets(backend.Sockets{})
	if err != nil {
		t.Fatal(err)
	}
	addr := "unix:" + filepath.Join(t.TempDir(), "s1.sock")
	l, err := ps.NewLocal(ps.LocalConfig{Servers: 1, Shards: 1, Network: network, Addrs: []string{addr}, Memory: 1 << 29})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var roads []road
	err = l.With(ctx, func(ctx context.Context) error {
		code, stdout, stderr := command(ctx, "topo", "--json", "--time", "30ms", "--cluster", l.Cluster(), "--servers", addr+",unix:/nobody/here")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		return json.Unmarshal([]byte(stdout), &roads)
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]road{}
	for _, r := range roads {
		seen[r.To+" "+r.Transport] = r
		if r.Why == "" && (r.Micros <= 0 || r.Small <= 0 || r.Large <= 0) {
			t.Errorf("not measured: %+v", r)
		}
	}
	for _, want := range []string{"goroutine inproc", "process unix", "process tcp", "process tls", addr + " tcp"} {
		if r, ok := seen[want]; !ok || r.Why != "" {
			t.Errorf("%s: %+v", want, r)
		}
	}
	if r := seen["unix:/nobody/here tcp"]; !strings.Contains(r.Why, "no such file") {
		t.Errorf("nobody answers: %+v", r)
	}
}
