package acl_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/hccl/sim"
)

// simDir is a folder with the simulator.
func simDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := sim.Build(context.Background(), dir); errors.Is(err, sim.ErrNoCompiler) {
		t.Skipf("%s needs the HCCL simulator: %v", t.Name(), err)
	} else if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLoadSaysWhatIsMissing(t *testing.T) {
	empty := t.TempDir()
	_, err := acl.Load(empty)
	if !errors.Is(err, acl.ErrNoLibrary) || !strings.Contains(err.Error(), empty) {
		t.Errorf("empty folder: %v", err)
	}
	if _, err = acl.Load(filepath.Join(empty, "none.so")); !errors.Is(err, acl.ErrNoLibrary) {
		t.Errorf("no file: %v", err)
	}
	t.Setenv(acl.EnvLib, empty)
	if _, err = acl.Load(""); !errors.Is(err, acl.ErrNoLibrary) || !strings.Contains(err.Error(), empty) {
		t.Errorf("empty folder of the variable: %v", err)
	}
	t.Setenv(acl.EnvLib, "")
	t.Setenv("ASCEND_HOME_PATH", empty)
	if lib, err := acl.Load(""); err == nil {
		t.Logf("this host has CANN: %v", lib.Files())
	} else if !errors.Is(err, acl.ErrNoLibrary) || !strings.Contains(err.Error(), "set_env.sh") || !strings.Contains(err.Error(), acl.EnvLib) {
		t.Errorf("nothing anywhere: %v", err)
	}
}

func TestLoadNamesMissingSymbols(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("%s needs a C compiler: %v", t.Name(), err)
	}
	dir := t.TempDir()
	source, lib := filepath.Join(dir, "old.c"), filepath.Join(dir, "old.so")
	if err := os.WriteFile(source, []byte("int aclInit(const char *p) { return p != 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v: %s", err, out)
	}
	_, err = acl.Load(lib)
	if !errors.Is(err, acl.ErrNoSymbol) || !strings.Contains(err.Error(), "HcclSend") || strings.Contains(err.Error(), "aclInit,") {
		t.Errorf("load a library without HCCL: %v", err)
	}
}

// Libraries of both times are found: all in libhccl, or split with libhcomm; libascendcl, or libacl_rt in its place.
func TestLoadFindsEitherNaming(t *testing.T) {
	dir := simDir(t)
	for _, gone := range []string{"", "libhcomm.so", "libascendcl.so"} {
		if gone != "" {
			if err := os.Remove(filepath.Join(dir, gone)); err != nil {
				t.Fatal(err)
			}
		}
		lib, err := acl.Load(dir)
		if err != nil {
			t.Fatalf("without %q: %v", gone, err)
		}
		if lib.Simulator() == "" || !lib.Has("HcclBatchSendRecv") || lib.Has("HcclGather") {
			t.Errorf("without %q: simulator %q, files %v", gone, lib.Simulator(), lib.Files())
		}
	}
}

// What a call costs over C: see also the C loop of BenchmarkCall.
func BenchmarkCall(b *testing.B) {
	lib, err := acl.Load(simDir(b))
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(lib.Setenv("HCCL_SIM_NOOP", "1"), lib.Setenv("HCCL_SIM_QUIET", "1"), lib.Init(), lib.SetDevice(0)); err != nil {
		b.Fatal(err)
	}
	stream, err := lib.CreateStream()
	if err != nil {
		b.Fatal(err)
	}
	p, err := lib.Malloc(4096, acl.HugeFirst)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Send", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = lib.Send(p, 1024, acl.Uint8, 1, 1, stream)
		}
	})
	b.Run("EventDone", func(b *testing.B) {
		e, err := lib.CreateEvent()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			_, _ = lib.EventDone(e)
		}
	})
}
