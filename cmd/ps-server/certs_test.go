package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
)

// command runs ps-server in this process.
func command(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = program.Run(ctx, app(), append([]string{"ps-server"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCertsAreWhatTheNetworkTakes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	file := func(name string) string { return filepath.Join(dir, name) }
	for i, name := range []string{"s1", "s2"} {
		code, stdout, stderr := command(t.Context(), "certs", "--out", dir, "--name", name, "--hosts", "10.0.0.5,node5")
		if code != 0 || !strings.Contains(stdout, file(name+".key")) || strings.Contains(stdout, "new CA") != (i == 0) {
			t.Fatalf("%s: exit %d: %s%s", name, code, stdout, stderr)
		}
		if _, err := backend.OpenSockets(backend.Sockets{TLSCert: file(name + ".crt"), TLSKey: file(name + ".key"), TLSCA: file("ca.crt")}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"ca.key", "s1.key"} {
		if info, err := os.Stat(file(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	before, err := os.ReadFile(file("s1.key"))
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t.Context(), "certs", "--out", dir, "--name", "s1"); code != 1 || !strings.Contains(stderr, "not overwritten") {
		t.Errorf("a second s1: exit %d: %s", code, stderr)
	}
	if after, err := os.ReadFile(file("s1.key")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("s1.key changed: %v", err)
	}
	_ = os.Remove(file("ca.key"))
	if code, _, stderr := command(t.Context(), "certs", "--out", dir, "--name", "s3"); code != 1 || !strings.Contains(stderr, "ca.key") {
		t.Errorf("without the CA's key: exit %d: %s", code, stderr)
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, k := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"certs", "--out", dir, "--name", "ca"}, 2, "--name"},
		{[]string{"certs", "--out", dir, "--name", "a/b"}, 2, "--name"},
		{[]string{"certs", "--out", dir, "--days", "0"}, 2, "--days"},
		{[]string{"certs", "--out", dir, "s1"}, 2, "no argument"},
		{[]string{"serve", "--dir", dir, "--tls-cert", "x"}, 2, "give --tls-ca, --tls-key beside --tls-cert"},
		{[]string{"serve", "--dir", dir, "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1:1"}, 2, "--insecure"},
		{[]string{"serve", "--dir", dir, "--listen", "0.0.0.0:0", "--insecure"}, 2, "--advertise"},
		{[]string{"serve", "--dir", dir, "--listen", "127.0.0.1:0", "--advertise", "0.0.0.0:7101"}, 2, "--advertise"},
		{[]string{"serve", "--dir", dir, "--shards", "1048576"}, 2, "--shards"},
		{[]string{"serve", "--dir", dir, "--replicas", "3"}, 2, "--replicas"},
		{[]string{"serve", "--dir", dir, "--memory", "1"}, 2, "--memory"},
		{[]string{"serve", "--dir", dir, "--token-file", filepath.Join(dir, "none")}, 2, "no such file"},
		{[]string{"serve", "--dir", dir, "--listen", "233.252.0.0/24:0", "--insecure"}, 2, "no interface of this host"},
		{[]string{"serve", "--dir", t.TempDir(), "--listen", taken.Addr().String()}, 1, "name another (Listen, --listen)"},
		{[]string{"status", "--servers", "nonsense"}, 2, "--servers nonsense: "},
		{[]string{"status", "--servers", "127.0.0.1:1"}, 1, "no server has answered, each says why"},
		{[]string{"row"}, 2, "row: which command? want one of get"},
		{[]string{"row", "gte"}, 2, "did you mean get?"},
		{[]string{"status", "--tls-key", "x"}, 2, "give --tls-ca, --tls-cert"},
		{[]string{"status", "--token-file", filepath.Join(dir, "none")}, 1, "no such file"},
	} {
		code, _, stderr := command(t.Context(), k.args...)
		if code != k.code || !strings.Contains(stderr, k.says) {
			t.Errorf("%q: exit %d, want %d: %q is not in %s", k.args, code, k.code, k.says, stderr)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 1 { // the store's folder alone
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFlagsOfProtectionHaveEnvironmentTwins(t *testing.T) {
	t.Setenv("HCCLPS_TLS_CERT", "/etc/a.crt")
	t.Setenv("HCCLPS_TOKEN_FILE", "/etc/token")
	code, stdout, stderr := command(t.Context(), "serve", "--print-config")
	if code != 0 || !strings.Contains(stdout, "tls-cert: /etc/a.crt") || !strings.Contains(stdout, "token-file: /etc/token") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}
