package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/link"
)

func TestBodiesOfAllSizes(t *testing.T) {
	sizes := []int{0, 1, link.MaxInline - 1, link.MaxInline, link.MaxInline + 1, 1 << 20, 1<<20 + 1, 5<<20 - 3}
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), nil)
		for _, n := range sizes {
			body := noise(n, uint64(n))
			for _, pieces := range [][][]byte{{body}, {nil, body[:n/3], nil, body[n/3 : n/2], body[n/2:]}} {
				r, err := w.call(link.Call{Head: []byte("echo"), Body: pieces, To: "s1"})
				check(t, err)
				if r.From != "s1" || string(r.Head) != "echo" || !bytes.Equal(r.Body, body) {
					t.Fatalf("%d bytes in %d pieces: %d bytes came back from %q with head %q", n, len(pieces), len(r.Body), r.From, r.Head)
				}
			}
		}
		if n := len(w.net.dialled()); n != 2 {
			t.Errorf("%d connections were dialled, want a control and a bulk one", n)
		}
	})
}

func TestLargeBodiesBothWaysAtOnce(t *testing.T) {
	const size = 64 << 20
	up, down := noise(size, 1), noise(size, 2)
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(ctx context.Context, r *link.Request) {
			if string(r.Head) == "down" {
				_ = r.Reply(nil, down[:size/2], down[size/2:])
				return
			}
			body, err := r.Body(ctx)
			if err == nil && !bytes.Equal(body, up) {
				err = errors.New("bytes differ")
			}
			_ = r.Reply([]byte(fmt.Sprint(err)))
		}, nil)
		var calls sync.WaitGroup
		calls.Go(func() {
			r, err := w.call(link.Call{Head: []byte("up"), Body: [][]byte{up}, Priority: link.Push})
			if err != nil || string(r.Head) != "<nil>" {
				t.Errorf("up: %v, %s", err, r.Head)
			}
		})
		calls.Go(func() {
			mine := make([]byte, size)
			r, err := w.call(link.Call{Head: []byte("down"), Alloc: func(n int) ([]byte, error) { return mine[:n], nil }})
			if err != nil || !bytes.Equal(r.Body, down) || &r.Body[0] != &mine[0] {
				t.Errorf("down: %v, %d bytes, or not in the memory given", err, len(r.Body))
			}
		})
		calls.Wait()
	})
}

func TestHundredCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			running += d
			most = max(most, running)
		}
		w := start(t, func(ctx context.Context, r *link.Request) {
			count(1)
			defer count(-1)
			body, err := r.Body(ctx)
			if err == nil {
				<-time.After(time.Millisecond)
				_ = r.Reply(r.Head, body)
			}
		}, func(s *settings) { s.server.MaxRequests = 10 })
		var calls sync.WaitGroup
		for i := range 100 {
			calls.Go(func() {
				body := noise(i*i*20, uint64(i))
				head := []byte(fmt.Sprint(i))
				r, err := w.call(link.Call{Head: head, Body: [][]byte{body}, Priority: link.Priority(i % 3)})
				if err != nil || !bytes.Equal(r.Head, head) || !bytes.Equal(r.Body, body) {
					t.Errorf("call %d: %v, head %q, %d bytes", i, err, r.Head, len(r.Body))
				}
			})
		}
		calls.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most != 10 {
			t.Errorf("%d handlers ran at once, want 10", most)
		}
		if n := len(w.net.dialled()); n != 2 {
			t.Errorf("%d connections for one address", n)
		}
	})
}

func TestNothingTravelsBeforeBodyIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		w := start(t, echo(func(_ context.Context, r *link.Request) {
			<-answer
			_ = r.Reply([]byte("no room"))
		}), nil)
		w.ping()
		synctest.Wait()
		before := make([]int64, 2)
		for i, c := range w.net.dialled() {
			before[i] = c.sent.Load()
		}
		result := make(chan link.Reply)
		go func() {
			r, err := w.call(link.Call{Head: []byte("hold"), Body: [][]byte{make([]byte, 8<<20)}})
			checkSoft(t, err)
			result <- r
		}()
		synctest.Wait()
		control, bulk := w.net.dialled()[0].sent.Load()-before[0], w.net.dialled()[1].sent.Load()-before[1]
		if control > 100 || bulk != 0 {
			t.Errorf("%d bytes on the control and %d on the bulk connection before anyone asked", control, bulk)
		}
		close(answer)
		if r := <-result; string(r.Head) != "no room" {
			t.Errorf("answered %q", r.Head)
		}
		if n := w.net.dialled()[1].sent.Load() - before[1]; n != 0 {
			t.Errorf("%d bytes of a body that was refused", n)
		}
		w.ping()
	})
}

func TestRefusedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(func(_ context.Context, r *link.Request) {
			if string(r.Head) == "much" {
				_ = r.Reply(nil, make([]byte, 2<<20))
			}
		}), func(s *settings) { s.server.MaxBody, s.client.MaxBody = 1<<20, 1<<20 })
		_, err := w.call(link.Call{Head: []byte("silent")})
		want(t, err, link.ErrNoReply, addr, "s1")
		_, err = w.call(link.Call{Head: []byte("echo"), Body: [][]byte{make([]byte, 1<<20+1)}})
		want(t, err, link.ErrTooLarge, "1048577", "1048576")
		_, err = w.call(link.Call{Head: []byte("much")})
		want(t, err, link.ErrTooLarge, "2097152", "1048576")
		_, err = w.call(link.Call{Head: make([]byte, link.MaxHead+1)})
		want(t, err, link.ErrTooLarge, "32769")
		_, err = w.call(link.Call{To: "s2"})
		want(t, err, link.ErrWrongRecipient, `"s2"`, `"s1"`)
		broke := errors.New("no memory")
		_, err = w.call(link.Call{Head: []byte("echo"), Body: [][]byte{make([]byte, 1<<20)}, Alloc: func(int) ([]byte, error) { return nil, broke }})
		want(t, err, broke)
		_, err = w.call(link.Call{Head: []byte("echo"), Priority: 3})
		if err == nil {
			t.Error("priority 3 was taken")
		}
		w.ping()
		if n := len(w.net.dialled()); n != 2 {
			t.Errorf("%d connections: a refusal cost one", n)
		}
	})
}

func TestRequestMisuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := make(chan error, 8)
		w := start(t, echo(func(ctx context.Context, r *link.Request) {
			errs <- r.BodyInto(ctx, make([]byte, 3))
			errs <- r.Reply(make([]byte, link.MaxHead+1))
			_, err := r.Body(ctx)
			checkSoft(t, err)
			_, err = r.Body(ctx)
			errs <- err
			checkSoft(t, r.Reply([]byte("first")))
			errs <- r.Reply([]byte("second"))
		}), nil)
		for _, n := range []int{0, 100, 100_000} {
			r, err := w.call(link.Call{Head: []byte("x"), Body: [][]byte{make([]byte, n)}})
			if err != nil || string(r.Head) != "first" {
				t.Errorf("%v, %q", err, r.Head)
			}
			for i := range 4 {
				if <-errs == nil {
					t.Errorf("misuse %d with a body of %d bytes went unnoticed", i, n)
				}
			}
		}
	})
}
