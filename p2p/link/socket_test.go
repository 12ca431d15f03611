package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hcclps/p2p/link"
	"hcclps/p2p/sockets"
)

// overSockets runs both sides over real sockets and returns the address.
func overSockets(t testing.TB, h link.HandlerFunc, unix bool) (*world, string) {
	t.Helper()
	return overSocketsWith(t, h, unix, func(*settings) {})
}

func overSocketsWith(t testing.TB, h link.HandlerFunc, unix bool, change func(*settings)) (*world, string) {
	t.Helper()
	where := "127.0.0.1:0"
	if unix {
		where = "unix:" + filepath.Join(t.TempDir(), "s")
	}
	n := &boundNetwork{}
	w := start(t, h, func(s *settings) {
		s.network, s.addr = n, where
		change(s)
	})
	if !unix {
		where = n.bound
	}
	return w, where
}

// boundNetwork remembers the port it got.
type boundNetwork struct {
	sockets.Network
	bound string
}

func (n *boundNetwork) Listen(ctx context.Context, addr string) (net.Listener, error) {
	ln, err := n.Network.Listen(ctx, addr)
	if err == nil {
		n.bound = ln.Addr().String()
	}
	return ln, err
}

func TestRealSockets(t *testing.T) {
	for _, unix := range []bool{false, true} {
		t.Run(fmt.Sprintf("unix=%v", unix), func(t *testing.T) {
			w, where := overSockets(t, echo(nil), unix)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var calls sync.WaitGroup
			for i, n := range []int{0, 100, link.MaxInline, 1 << 20, 17 << 20, 3<<20 + 1} {
				calls.Go(func() {
					body := noise(n, uint64(i))
					r, err := w.client.Call(ctx, where, link.Call{Head: []byte("echo"), Body: [][]byte{body[:n/2], body[n/2:]}, Priority: link.Priority(i % 3)})
					if err != nil || !bytes.Equal(r.Body, body) {
						t.Errorf("%d bytes: %d came back, %v", n, len(r.Body), err)
					}
				})
			}
			calls.Wait()
			w.stop()
			var err error
			for err == nil { // the server may still take some
				_, err = w.client.Call(ctx, where, link.Call{Head: []byte("echo")})
			}
			if !errors.Is(err, link.ErrPeer) && !errors.Is(err, link.ErrUnreachable) {
				t.Errorf("after the server stopped: %v", err)
			}
		})
	}
}

func BenchmarkCall1KiB(b *testing.B) {
	w, where := overSockets(b, echo(nil), false)
	body := [][]byte{make([]byte, 1<<10)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.client.Call(b.Context(), where, link.Call{Head: []byte("echo"), Body: body}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall1KiBParallel(b *testing.B) {
	w, where := overSockets(b, echo(nil), false)
	body := [][]byte{make([]byte, 1<<10)}
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.client.Call(b.Context(), where, link.Call{Head: []byte("echo"), Body: body}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkBody(b *testing.B) {
	for _, size := range []int{1 << 20, 16 << 20} {
		for _, unix := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dMiB/unix=%v", size>>20, unix), func(b *testing.B) {
				mine := make([]byte, size)
				w, where := overSockets(b, func(ctx context.Context, r *link.Request) {
					if err := r.BodyInto(ctx, mine); err == nil {
						_ = r.Reply(nil)
					}
				}, unix)
				body := [][]byte{make([]byte, size)}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := w.client.Call(b.Context(), where, link.Call{Body: body, Priority: link.Push}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
