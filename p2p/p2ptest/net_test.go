package p2ptest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/p2ptest"
)

// linked is a network and a connection from host a to host b.
type linked struct {
	*testing.T
	n    *p2ptest.Net
	a, b net.Conn
}

// bubble runs a test with a network in fake time.
func bubble(t *testing.T, run func(t *linked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := p2ptest.NewNet(1)
		defer n.Close()
		l, err := n.Host("b").Listen(t.Context(), "b:1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		a, err := n.Host("a").Dial(t.Context(), "b:1")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		run(&linked{t, n, a, b})
	})
}

// arrives says whether a byte crosses within a minute.
func arrives(t *testing.T, from, to net.Conn) bool {
	t.Helper()
	if _, err := from.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	_ = to.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := to.Read(make([]byte, 1))
	return err == nil
}

func TestCutIsSilentAndOneWay(t *testing.T) {
	bubble(t, func(t *linked) {
		if !arrives(t.T, t.a, t.b) || !arrives(t.T, t.b, t.a) {
			t.Fatal("nothing arrives on a link that works")
		}
		t.n.Cut("a", "b")
		if arrives(t.T, t.a, t.b) {
			t.Error("a byte crossed a link that is cut")
		}
		if !arrives(t.T, t.b, t.a) {
			t.Error("the other direction is cut, too")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := t.n.Host("b").Dial(ctx, "b:1"); err != nil {
			t.Errorf("dial to oneself: %v", err)
		}
		if _, err := t.n.Host("a").Dial(ctx, "b:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial over a link that is cut: %v", err)
		}
		t.n.Heal()
		_ = t.b.SetReadDeadline(time.Time{})
		if _, err := t.b.Read(make([]byte, 1)); err != nil {
			t.Errorf("the byte that waited does not arrive: %v", err)
		}
	})
}

func TestPartition(t *testing.T) {
	bubble(t, func(t *linked) {
		t.n.Partition([]string{"a", "x"}, []string{"b"})
		if arrives(t.T, t.a, t.b) || arrives(t.T, t.b, t.a) {
			t.Error("a byte crossed the partition")
		}
		_ = t.a.Close()
		synctest.Wait()
		_ = t.b.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := t.b.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			t.Error("a close crossed the partition")
		}
		t.n.Partition([]string{"a", "b"}, []string{"x"})
		_ = t.b.SetReadDeadline(time.Time{})
		if got, err := io.ReadAll(t.b); len(got) != 1 || err != nil {
			t.Errorf("after the partition: %d bytes, %v, want the byte that waited and the end", len(got), err)
		}
	})
}

func TestKill(t *testing.T) {
	bubble(t, func(t *linked) {
		t.n.Partition([]string{"a"}, []string{"b"})
		t.n.Kill("b")
		for _, end := range []net.Conn{t.a, t.b} {
			if _, err := end.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("read from a connection that broke: %v", err)
			}
		}
		t.n.Heal()
		if _, err := t.n.Host("a").Dial(t.Context(), "b:1"); err != nil {
			t.Errorf("dial a host that was killed and listens: %v", err)
		}
		if _, err := t.n.Host("a").Dial(t.Context(), "c:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial where nobody listens: %v", err)
		}
	})
}

func TestBreak(t *testing.T) {
	bubble(t, func(t *linked) {
		t.n.Break(0.1)
		count := 0
		for arrives(t.T, t.a, t.b) {
			if count++; count > 1000 {
				t.Fatal("1000 pieces met a chance of one in ten and nothing broke")
			}
		}
		if count == 0 {
			t.Error("the first piece broke the connection")
		}
		_ = t.a.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := t.a.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the other end: %v", err)
		}
	})
}

func TestDelayKeepsBytes(t *testing.T) {
	bubble(t, func(t *linked) {
		t.n.Delay(10 * time.Millisecond)
		want := bytes.Repeat([]byte("0123456789abcde"), 100_000)
		go func() {
			_, _ = t.a.Write(want)
			_ = t.a.Close()
		}()
		begin := time.Now()
		got, err := io.ReadAll(t.b)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d of %d bytes: %v", len(got), len(want), err)
		}
		if took := time.Since(begin); took == 0 || took > time.Second {
			t.Errorf("%d bytes took %v of fake time", len(want), took)
		}
	})
}

func TestAddressesOfAConnection(t *testing.T) {
	bubble(t, func(t *linked) {
		if got := t.b.RemoteAddr().String(); got != "a" {
			t.Errorf("acceptor sees %q", got)
		}
		if t.a.LocalAddr().String() != "a" || t.a.RemoteAddr().String() != "b:1" {
			t.Errorf("dialler's end: %v to %v", t.a.LocalAddr(), t.a.RemoteAddr())
		}
	})
}
