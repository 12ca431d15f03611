package p2ptest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
)

func TestShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(0)
		from := p2ptest.Shape{Bandwidth: 1e6, Latency: 30 * time.Millisecond}.Conn(a)
		want := bytes.Repeat([]byte("0123456789abcde"), 100_000)
		began := time.Now()
		sent := make(chan time.Duration, 1)
		go func() {
			_, _ = from.Write(want)
			sent <- time.Since(began)
		}()
		got := make([]byte, len(want))
		if _, err := b.Read(got[:1]); err != nil {
			t.Fatal(err)
		}
		firstAt := time.Since(began)
		if _, err := io.ReadFull(b, got[1:]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("bytes arrived changed: %v", err)
		}
		all := time.Since(began)
		const slack = 2 * time.Millisecond
		if d := firstAt - 95*time.Millisecond; d.Abs() > slack { // 64 KiB and the latency
			t.Errorf("the first piece was there after %v", firstAt)
		}
		left := <-sent
		if d := left - 1500*time.Millisecond; d.Abs() > slack {
			t.Errorf("1.5 MB left in %v", left)
		}
		if d := all - 1530*time.Millisecond; d.Abs() > slack {
			t.Errorf("1.5 MB were there after %v", all)
		}
		blocked := make(chan error)
		go func() {
			_, err := from.Write(want)
			blocked <- err
		}()
		synctest.Wait()
		_ = from.Close()
		if err := <-blocked; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write when the connection is closed: %v", err)
		}
		_ = b.Close()
	})
}

func TestShapedWriteSeesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inproc.Pipe(0)
		from := p2ptest.Shape{}.Conn(a)
		_ = b.Close()
		var err error
		for range 1000 {
			if _, err = from.Write([]byte("x")); err != nil {
				break
			}
			synctest.Wait()
		}
		if err == nil {
			t.Error("nobody says that the other side is gone")
		}
		_ = from.Close()
	})
}
