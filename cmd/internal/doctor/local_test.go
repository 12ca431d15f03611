package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/hccl/sim"
	"hcclps/ps"
)

// The kernel that runs this has all four features, or says which it lacks.
func TestProbesOfThisKernel(t *testing.T) {
	for _, f := range Features() {
		if err := (kernel{}).Probe(f); err != nil {
			t.Logf("this kernel lacks %s: %v", f, err)
		}
	}
	if (kernel{}).Probe("telepathy") == nil {
		t.Error("an unknown feature works")
	}
	if n, err := (kernel{}).Files(); err != nil || n == 0 {
		t.Errorf("%d open files: %v", n, err)
	}
	if s, err := (kernel{}).Space(t.TempDir()); err != nil || s.Total < s.Free {
		t.Errorf("space %+v: %v", s, err)
	}
	ifs, err := hostNetwork{}.Interfaces()
	if err != nil || !slices.ContainsFunc(ifs, func(i Interface) bool { return len(i.Addrs) > 0 && i.Addrs[0].IsLoopback() }) {
		t.Errorf("no loopback among %+v: %v", ifs, err)
	}
}

// doctorOf runs the command and gives its exit code and report.
func doctorOf(ctx context.Context, t *testing.T, args ...string) (int, Report) {
	t.Helper()
	app := &cli.App{Name: "p", Commands: []*cli.Command{Command(true, []cli.Flag{&cli.StringFlag{Name: "name"}, &cli.StringFlag{Name: "dir"}})}}
	var out, errs bytes.Buffer
	code := program.Run(ctx, app, append([]string{"p", "doctor", "--json", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--timeout", "1m"}, args...), &out, &errs)
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %q; exit %d, %s", err, out.String(), code, errs.String())
	}
	return code, r
}

func TestDoctorOfARunningCluster(t *testing.T) {
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
	err = l.With(ctx, func(ctx context.Context) error {
		_, r := doctorOf(ctx, t, "--cluster", l.Cluster(), "--servers", addr, "--name", "s1") // a flag of serve
		r.want(t, "servers", OK, "server s1", "round trip")
		code, r := doctorOf(ctx, t, "--cluster", "other", "--servers", addr)
		r.want(t, "servers", Fail, "wrong cluster", "--cluster")
		if code != 1 {
			t.Errorf("exit %d, want 1", code)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDoctorSaysSimulator(t *testing.T) {
	lib, err := sim.Build(t.Context(), t.TempDir())
	if errors.Is(err, sim.ErrNoCompiler) {
		t.Skipf("no simulator: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HCCL_SIM_QUIET", "1")
	t.Setenv(acl.EnvLib, lib)
	_, r := doctorOf(t.Context(), t, "--transport", "hccl", "--device", "0")
	r.want(t, "cann", Warn, "SIMULATOR", lib)
	r.want(t, "hccl variables", OK, "HCCL_SIM_QUIET")
	r.want(t, "transports", OK, "hccl: by the simulator")
	t.Setenv(acl.EnvLib, lib+".none")
	code, r := doctorOf(t.Context(), t)
	if r.want(t, "cann", Fail, lib+".none", acl.EnvLib); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	r.want(t, "hccl variables", Warn, "HCCL_SIM_QUIET", "not loaded")
}

func TestUsageOfDoctor(t *testing.T) {
	app := &cli.App{Name: "p", Commands: []*cli.Command{Command(false, nil)}}
	for _, args := range [][]string{{"--transport", "pigeon"}, {"extra"}, {"--timeout", "-1s"}} {
		var out, errs bytes.Buffer
		if code := program.Run(t.Context(), app, append([]string{"p", "doctor"}, args...), &out, &errs); code != 2 {
			t.Errorf("%q: exit %d: %s", args, code, errs.String())
		}
	}
}
