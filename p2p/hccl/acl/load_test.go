package acl_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
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

// loop is a C program that calls HcclSend as BenchmarkCall does, and prints the nanoseconds of a call.
const loop = `
#include <stdio.h>
#include <time.h>
#include "acl/acl.h"
#include "hccl/hccl.h"
int main(void) {
	aclrtStream s; void *p; struct timespec a, b; const int n = 2000000;
	if (aclInit(0) || aclrtSetDevice(0) || aclrtCreateStream(&s) || aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST)) return 1;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int i = 0; i < n; i++) HcclSend(p, 1024, HCCL_DATA_TYPE_UINT8, 1, (HcclComm)8, s);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	printf("%f", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / n);
	return 0;
}`

// BenchmarkCall is what a call costs, on a simulator that does nothing, beside the same from C.
func BenchmarkCall(b *testing.B) {
	dir := simDir(b)
	b.Setenv("HCCL_SIM_NOOP", "1")
	b.Setenv("HCCL_SIM_QUIET", "1")
	b.Run("SendFromC", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(fromC(b, dir), "ns/op")
		}
	})
	lib, err := acl.Load(dir)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(lib.Setenv("HCCL_SIM_NOOP", "1"), lib.Setenv("HCCL_SIM_QUIET", "1"), lib.Init()); err != nil {
		b.Fatal(err)
	}
	b.Run("Send", func(b *testing.B) {
		runtime.LockOSThread()
		if err := lib.SetDevice(0); err != nil {
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
		b.ReportAllocs()
		for b.Loop() {
			_ = lib.Send(p, 1024, acl.Uint8, 1, 8, stream)
		}
	})
	b.Run("EventDone", func(b *testing.B) {
		runtime.LockOSThread()
		if err := lib.SetDevice(0); err != nil {
			b.Fatal(err)
		}
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

// fromC compiles and runs the C loop.
func fromC(b *testing.B, dir string) float64 {
	b.Helper()
	source, program := filepath.Join(dir, "loop.c"), filepath.Join(dir, "loop")
	if err := os.WriteFile(source, []byte(loop), 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := exec.CommandContext(b.Context(), "cc", "-O2", "-D_GNU_SOURCE", "-I", filepath.Join(dir, "include"), "-o", program, source,
		"-L", dir, "-lhccl", "-lascendcl", "-Wl,-rpath,"+dir).CombinedOutput()
	if err != nil {
		b.Fatalf("compile: %v: %s", err, out)
	}
	out, err = exec.CommandContext(b.Context(), program).Output()
	if err != nil {
		b.Fatal(err)
	}
	ns, err := strconv.ParseFloat(string(out), 64)
	if err != nil {
		b.Fatal(err)
	}
	return ns
}
