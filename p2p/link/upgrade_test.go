package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p/link"
	"hcclps/p2p/tcp"
)

// betterPair is an UpgradeFunc that takes a while and remembers what it made.
type betterPair struct {
	takes time.Duration
	fails atomic.Int32 // so many attempts fail first
	mu    sync.Mutex
	made  []link.Comm
}

func (b *betterPair) upgrade(ctx context.Context, conn net.Conn, rank int) (link.Comm, error) {
	select {
	case <-time.After(b.takes):
	case <-ctx.Done():
		_ = conn.Close()
		return nil, context.Cause(ctx)
	}
	if b.fails.Add(-1) >= 0 {
		_ = conn.Close()
		return nil, errors.New("device is busy")
	}
	c := tcp.Pair([]net.Conn{conn}, rank)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made = append(b.made, c)
	return c, nil
}

func (b *betterPair) comms() []link.Comm {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]link.Comm(nil), b.made...)
}

// keepCalling makes calls until d has passed.
func (w *world) keepCalling(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.ping()
		<-time.After(100 * time.Millisecond)
	}
}

func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := &betterPair{takes: 2 * time.Second}, &betterPair{takes: 3 * time.Second}
		w := start(t, echo(nil), func(s *settings) { s.client.Upgrade, s.server.Upgrade = mine.upgrade, theirs.upgrade })
		_, err := w.call(link.Call{Head: []byte("echo")})
		check(t, err)
		<-time.After(time.Minute)
		if n := len(w.net.dialled()); n != 1 {
			t.Errorf("%d connections before anything large was sent", n)
		}
		w.keepCalling(2900 * time.Millisecond)
		if s := w.client.Stats(); s.Switches != 0 {
			t.Errorf("switched before both sides were ready: %+v", s)
		}
		w.keepCalling(time.Second)
		if s := w.client.Stats(); s.Switches != 1 || s.Resets != 0 || len(w.net.dialled()) != 3 {
			t.Errorf("after the upgrade: %+v, %d connections", s, len(w.net.dialled()))
		}
		_ = theirs.comms()[0].Close()
		w.ping() // at once, over a plain one
		if s := w.client.Stats(); s.Resets != 1 || len(w.net.dialled()) < 4 {
			t.Errorf("after the better comm died: %+v, %d connections", s, len(w.net.dialled()))
		}
		w.keepCalling(10 * time.Second)
		if s := w.client.Stats(); s.Switches != 2 || s.Resets != 1 || len(mine.comms()) != 2 || len(theirs.comms()) != 2 {
			t.Errorf("it was not upgraded again: %+v", s)
		}
		if logs := w.logs.String(); !strings.Contains(logs, "bulk comm lost") {
			t.Errorf("the log does not say why: %s", logs)
		}
	})
}

func TestUpgradeThatFails(t *testing.T) {
	for _, who := range []string{"client", "server", "only the client has it"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mine, theirs := &betterPair{takes: time.Second}, &betterPair{takes: 2 * time.Second}
				switch who {
				case "client":
					mine.fails.Store(3)
				case "server":
					theirs.fails.Store(3)
				}
				w := start(t, echo(nil), func(s *settings) {
					s.client.Upgrade = mine.upgrade
					if !strings.HasPrefix(who, "only") {
						s.server.Upgrade = theirs.upgrade
					}
				})
				w.keepCalling(2 * time.Minute)
				s := w.client.Stats()
				if strings.HasPrefix(who, "only") {
					if n := len(w.net.dialled()); s.Switches != 0 || s.Resets != 0 || n < 5 || n > 11 {
						t.Errorf("%+v, %d connections", s, n)
					}
					return
				}
				if s.Switches != 1 || s.Resets != 0 {
					t.Errorf("%+v, logged: %s", s, w.logs.String())
				}
				if logs := w.logs.String(); strings.Count(logs, "device is busy") < 3 || len(w.net.dialled()) > 8 {
					t.Errorf("%d connections, logged: %s", len(w.net.dialled()), logs)
				}
			})
		})
	}
}

func TestUpgradeEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := &betterPair{takes: time.Hour}
		w := start(t, echo(nil), func(s *settings) { s.client.Upgrade, s.server.Upgrade = never.upgrade, never.upgrade })
		began := time.Now()
		w.keepCalling(90 * time.Second) // longer than an attempt may take
		if s := w.client.Stats(); s.Switches != 0 || s.Resets != 0 {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(w.logs.String(), "no comm within 1m0s") {
			t.Errorf("logged: %s", w.logs.String())
		}
		w.stop()
		_, err := w.call(link.Call{Head: []byte("echo")})
		for err == nil {
			_, err = w.call(link.Call{Head: []byte("echo")})
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// unusable is an UpgradeFunc of a side that insists on what cannot be had.
func unusable(_ context.Context, conn net.Conn, _ int) (link.Comm, error) {
	_ = conn.Close()
	return nil, fmt.Errorf("%w: no device", link.ErrUnusable)
}

// Either side may insist. Calls under way end with it, and those that follow.
func TestUnusablePair(t *testing.T) {
	for _, who := range []string{"client", "server", "client at once", "server at once"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waiting := make(chan struct{})
				w := start(t, echo(func(ctx context.Context, r *link.Request) {
					close(waiting)
					<-ctx.Done()
				}), func(s *settings) {
					never := &betterPair{takes: time.Hour}
					pairs := func(ctx context.Context, conns []net.Conn, rank int) (link.Comm, error) {
						return unusable(ctx, conns[0], rank)
					}
					switch s.client.Upgrade, s.server.Upgrade = never.upgrade, never.upgrade; who {
					case "client":
						s.client.Upgrade = unusable
					case "server":
						s.server.Upgrade = unusable
					case "client at once":
						s.client.Pair = pairs
					case "server at once":
						s.server.Pair = pairs
					}
				})
				var under errgroup.Group
				under.Go(func() error {
					_, err := w.call(link.Call{Head: []byte("wait")})
					return err
				})
				<-waiting
				began := time.Now()
				var err error
				for err == nil && time.Since(began) < time.Minute {
					_, err = w.call(link.Call{Head: []byte("echo"), Body: [][]byte{noise(100_000, 9)}})
				}
				want(t, err, link.ErrUnusable, "no device")
				want(t, under.Wait(), link.ErrUnusable, "no device")
				if _, err = w.call(link.Call{Head: []byte("echo")}); !errors.Is(err, link.ErrUnusable) {
					t.Errorf("the next call: %v", err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
