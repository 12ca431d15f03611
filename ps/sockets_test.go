package ps_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/sockets/certs"
	"hcclps/ps"
	"hcclps/worker"
)

// logged is what a server says.
type logged struct {
	mu   sync.Mutex
	b    bytes.Buffer
	line chan string // lines that say where it listens
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(p, []byte("msg=listening")) {
		l.line <- string(p)
	}
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// socketServer runs one server on real sockets and says where it listens.
func socketServer(t *testing.T, cfg ps.Config) (addr string, log *logged) {
	t.Helper()
	log = &logged{line: make(chan string, 1)}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	s, err := ps.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case line := <-log.line:
		_, addr, _ = strings.Cut(line, " addr=")
		addr, _, _ = strings.Cut(addr, " ")
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the server does not listen")
	}
	return addr, log
}

// status asks a server how it is.
func status(t *testing.T, sockets backend.Sockets, addr string) error {
	t.Helper()
	network, err := backend.OpenSockets(sockets)
	if err != nil {
		t.Fatal(err)
	}
	client, err := link.NewClient(link.Config{Network: network, Pair: backend.Pair, Cluster: ps.DefaultCluster, ID: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	_, err = worker.ServerStatus(ctx, client, addr, false)
	cancel()
	return errors.Join(err, <-ended)
}

// protection writes certificates of a new CA and a token into a folder.
func protection(t *testing.T, secret string) backend.Sockets {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(certs.Request{Name: "s1", Validity: time.Hour})
	if err == nil {
		err = errors.Join(pair.Write(file("crt"), file("key")), os.WriteFile(file("ca"), ca.Pair().Cert, 0o600),
			os.WriteFile(file("token"), []byte(base64.StdEncoding.EncodeToString([]byte(secret))), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return backend.Sockets{TLSCert: file("crt"), TLSKey: file("key"), TLSCA: file("ca"), TokenFile: file("token")}
}

// Every plane is behind the same door, and a refusal says what to do.
func TestServerBehindTLSAndToken(t *testing.T) {
	t.Parallel()
	ours, theirs := protection(t, "our own secret"), protection(t, "not the same one")
	dir := t.TempDir()
	addr, log := socketServer(t, ps.Config{
		Dir: dir, Listen: "127.0.0.0/8:0", TLSCert: ours.TLSCert, TLSKey: ours.TLSKey, TLSCA: ours.TLSCA, TokenFile: ours.TokenFile,
	})
	if !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Errorf("listens at %s", addr)
	}
	if err := status(t, ours, addr); err != nil {
		t.Error(err)
	}
	for name, k := range map[string]struct {
		sockets backend.Sockets
		says    string
	}{
		"nothing":     {backend.Sockets{}, "speaks TLS only"},
		"other ca":    {backend.Sockets{TLSCert: theirs.TLSCert, TLSKey: theirs.TLSKey, TLSCA: theirs.TLSCA, TokenFile: ours.TokenFile}, "is not of the CA"},
		"no token":    {backend.Sockets{TLSCert: ours.TLSCert, TLSKey: ours.TLSKey, TLSCA: ours.TLSCA}, "wants a token"},
		"other token": {backend.Sockets{TLSCert: ours.TLSCert, TLSKey: ours.TLSKey, TLSCA: ours.TLSCA, TokenFile: theirs.TokenFile}, "different tokens"},
	} {
		if err := status(t, k.sockets, addr); err == nil || !strings.Contains(err.Error(), k.says) || !strings.Contains(err.Error(), addr) {
			t.Errorf("%s: %v, want it to say %q and %s", name, err, k.says, addr)
		}
	}
	if !strings.Contains(log.String(), "tls=true token=true") {
		t.Errorf("log: %s", log)
	}
}

// A server that was protected once does not come up open because a flag was left out.
func TestProtectionIsRecorded(t *testing.T) {
	t.Parallel()
	ours := protection(t, "our own secret")
	dir := t.TempDir()
	run := func(cfg ps.Config) error {
		cfg.Dir = dir
		s, err := ps.New(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it stops before it listens, after it was recorded
		return s.Run(ctx)
	}
	if err := run(ps.Config{Listen: "127.0.0.1:0", TokenFile: ours.TokenFile}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ours.TokenFile); err != nil {
		t.Fatal(err)
	}
	err := run(ps.Config{})
	if _, ok := errors.AsType[*ps.ConfigError](err); !ok || !strings.Contains(err.Error(), ours.TokenFile) {
		t.Errorf("a later start without the token's file: %v", err)
	}
	other := protection(t, "another secret")
	if err := run(ps.Config{TokenFile: other.TokenFile}); err != nil {
		t.Errorf("a later start with a new token: %v", err)
	}
}

// Processes of one host meet on the Unix socket of the advertised address.
func TestServersOfOneHostMeetOnUnixSockets(t *testing.T) {
	t.Parallel()
	advertised := fmt.Sprintf("192.0.2.77:%d", 1024+os.Getpid()%60000) // an address of nobody: only the socket leads to the server
	socketServer(t, ps.Config{Dir: t.TempDir(), Cluster: ps.DefaultCluster, Listen: "127.0.0.1:0", Advertise: advertised})
	if err := status(t, backend.Sockets{Local: ps.DefaultCluster}, advertised); err != nil {
		t.Error(err)
	}
}

// A cluster whose every byte goes through TLS on TCP: formation, elections, appends and a worker.
func TestClusterOverTLS(t *testing.T) {
	t.Parallel()
	network, err := backend.OpenSockets(protection(t, "our own secret")) // without Local: no Unix sockets
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for len(addrs) < 3 {
		if a := p2ptest.FreeAddr(t).String(); !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	local, err := ps.NewLocal(ps.LocalConfig{Dir: t.TempDir(), Network: network, Addrs: addrs, LogBudget: 4 << 20, Shards: 1, Durability: ps.QuorumDisk})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err = local.With(ctx, func(ctx context.Context) error {
		w, err := worker.Connect(ctx, worker.Config{Servers: addrs, Cluster: local.Cluster(), Network: network})
		if err != nil {
			return err
		}
		stranger, err := worker.Connect(ctx, worker.Config{Servers: addrs[:1], Cluster: local.Cluster(), Job: "other"})
		if err == nil {
			stranger.Abandon()
			t.Error("a worker without certificates was let in")
		} else if !strings.Contains(err.Error(), "speaks TLS only") {
			t.Errorf("a worker without certificates: %v", err)
		}
		return w.Close(ctx)
	})
	if err != nil {
		t.Error(err)
	}
}
