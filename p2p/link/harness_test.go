package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/p2p/tcp"
)

const addr = "server:1"

func pair(_ context.Context, conns []net.Conn, rank int) (link.Comm, error) {
	return tcp.Pair(conns, rank), nil
}

// calm is a Comm over which bodies go unasked.
type calm struct{ link.Comm }

func (calm) Confirms() bool { return true }
func (calm) Patient() bool  { return true }

func calmPair(_ context.Context, conns []net.Conn, rank int) (link.Comm, error) {
	return calm{tcp.Pair(conns, rank)}, nil
}

// spy is a Network that remembers the connections it dialled and counts the bytes written on both ends.
type spy struct {
	link.Network
	mu    sync.Mutex
	conns []*spyConn
}

type spyConn struct {
	net.Conn
	sent atomic.Int64
}

func (c *spyConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

func (s *spy) Dial(ctx context.Context, to string) (net.Conn, error) {
	conn, err := s.Network.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	c := &spyConn{Conn: conn}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return c, nil
}

func (s *spy) dialled() []*spyConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*spyConn(nil), s.conns...)
}

// world is a client and a server in one process.
type world struct {
	t      testing.TB
	net    *spy
	client *link.Client
	stop   context.CancelFunc // of the server
	logs   *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type settings struct {
	network  link.Network // default inproc
	addr     string
	server   link.ServerConfig
	client   link.Config
	self     link.Identity
	halfOpen int
}

// start runs both sides until the test ends.
func start(t testing.TB, h link.HandlerFunc, change func(*settings)) *world {
	t.Helper()
	w := &world{t: t, logs: &lockedBuffer{}}
	logger := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	set := settings{
		network: inproc.NewNetwork(), addr: addr,
		server: link.ServerConfig{Handler: h, Pair: pair, Logger: logger},
		self:   link.Identity{Cluster: "c", ID: "s1", Info: "host 1"},
		client: link.Config{Pair: pair, Cluster: "c", ID: "w1", Logger: logger},
	}
	if change != nil {
		change(&set)
	}
	w.net = &spy{Network: set.network}
	if set.client.Network == nil {
		set.client.Network = w.net
	}
	server, err := link.NewServer(set.server)
	check(t, err)
	w.client, err = link.NewClient(set.client)
	check(t, err)
	ln, err := set.network.Listen(t.Context(), set.addr)
	check(t, err)
	gate := link.Gate{Identity: set.self, Handle: server.Accept, Limits: link.Limits{MaxHalfOpen: set.halfOpen}, Logger: logger}
	ctx, cancel := context.WithCancel(context.Background())
	sctx, stop := context.WithCancel(ctx)
	w.stop = stop
	var all sync.WaitGroup
	all.Go(func() { checkSoft(t, gate.Serve(sctx, ln)) })
	all.Go(func() { checkSoft(t, server.Run(sctx)) })
	all.Go(func() { checkSoft(t, w.client.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		stop()
		all.Wait()
	})
	return w
}

func (w *world) call(c link.Call) (link.Reply, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	return w.client.Call(ctx, addr, c)
}

// ping proves that the pair works, large bodies both ways included.
func (w *world) ping() {
	w.t.Helper()
	body := noise(100_000, 9)
	r, err := w.call(link.Call{Head: []byte("echo"), Body: [][]byte{body}})
	if err != nil || !bytes.Equal(r.Body, body) {
		w.t.Fatalf("ping: %d bytes of %d came back: %v", len(r.Body), len(body), err)
	}
}

// echo answers head and body as they came. Other heads than "echo" are for special.
func echo(special func(ctx context.Context, r *link.Request)) link.HandlerFunc {
	return func(ctx context.Context, r *link.Request) {
		if special != nil && !strings.HasPrefix(string(r.Head), "echo") {
			special(ctx, r)
			return
		}
		body, err := r.Body(ctx)
		if err != nil {
			return
		}
		_ = r.Reply(r.Head, body)
	}
}

func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	c := rand.NewPCG(seed, 1)
	for i := 0; i < n; i += 8 {
		x := c.Uint64()
		for j := i; j < min(n, i+8); j++ {
			b[j] = byte(x)
			x >>= 8
		}
	}
	return b
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkSoft(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// want fails unless err is kind and says all of texts.
func want(t testing.TB, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	for _, s := range texts {
		if !strings.Contains(fmt.Sprint(err), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}
