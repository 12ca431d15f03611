package sockets

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// serve answers each connection of a listener with a word, after one byte from it.
func serve(t *testing.T, l net.Listener, word string) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					_, _ = io.WriteString(conn, word)
				}
			}()
		}
	}()
}

// ask is who answers at addr.
func ask(t *testing.T, n Network, addr string) (word string, conn net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := n.Dial(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), conn
}

func TestServersOfThisHostAreReachedByUnixSockets(t *testing.T) {
	const secret = "0123456789abcdef"
	ca := authority(t)
	cluster := t.Name() + t.TempDir() // of this test alone
	for name, n := range map[string]Network{"plain": {}, "token": network(t, secret, nil), "tls": network(t, "", ca), "both": network(t, secret, ca)} {
		t.Run(name, func(t *testing.T) {
			n.local = cluster + name
			far, err := n.Listen(t.Context(), "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			serve(t, far, "tcp")
			addr := far.Addr().String()
			if got, _ := ask(t, n, addr); got != "tcp" {
				t.Errorf("before there is a socket: %q", got)
			}
			near, err := n.ListenLocal(t.Context(), addr)
			if err != nil {
				t.Fatal(err)
			}
			serve(t, near, "unix")
			got, conn := ask(t, n, addr)
			if got != "unix" || !isUnix(conn) || !strings.Contains(conn.RemoteAddr().String(), "pid ") {
				t.Errorf("with a socket: %q of %T at %s", got, conn, conn.RemoteAddr())
			}
			if n.tls != nil {
				stranger := network(t, "", authority(t))
				stranger.local, stranger.token = n.local, n.token
				if _, err := stranger.Dial(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "is not of the CA") {
					t.Errorf("with a certificate of another CA: %v", err)
				}
			}
			other := n
			other.local += "x"
			if got, _ := ask(t, other, addr); got != "tcp" {
				t.Errorf("from another cluster: %q", got)
			}
			if _, err := n.ListenLocal(t.Context(), addr); err == nil {
				t.Error("two servers have one address")
			}
			_ = near.Close()
			if got, _ := ask(t, n, addr); got != "tcp" {
				t.Errorf("when the socket is gone: %q", got)
			}
		})
	}
	if _, err := (Network{}).ListenLocal(t.Context(), "x:1"); err == nil {
		t.Error("a socket of no cluster")
	}
}

// Who sits on the name without the token is passed by.
func TestFalseSocketIsNotUsed(t *testing.T) {
	n := network(t, "0123456789abcdef", nil)
	n.local = t.Name() + t.TempDir()
	far, err := n.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, far, "tcp")
	squatter, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", localName(n.local, far.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, squatter, strings.Repeat("mine", 20))
	if got, _ := ask(t, n, far.Addr().String()); got != "tcp" {
		t.Errorf("got %q", got)
	}
}

// Who was accepted may speak first: nothing of that is lost in the TLS that ends before it.
func TestWordsRightBehindTheDoor(t *testing.T) {
	n := network(t, "", authority(t))
	n.local = t.Name() + t.TempDir()
	l, err := n.ListenLocal(t.Context(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "at once")
			_ = conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := n.Dial(ctx, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "at once" {
		t.Errorf("read %q, %v", b, err)
	}
}
