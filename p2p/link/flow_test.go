package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
)

// handComm is a Comm whose transfers complete when the test says so.
type handComm struct {
	posted chan p2p.Completion
	bufs   chan []byte
	closed chan struct{}
}

func newHandComm() *handComm {
	return &handComm{posted: make(chan p2p.Completion, 100), bufs: make(chan []byte, 100), closed: make(chan struct{})}
}

func (c *handComm) Rank() int { return 0 }
func (c *handComm) Size() int { return 2 }

func (c *handComm) post(_ int, b p2p.Buffer) *p2p.Request {
	r, done := p2p.NewRequest()
	c.posted <- done
	c.bufs <- b.Host()
	return r
}

func (c *handComm) Isend(peer int, b p2p.Buffer) *p2p.Request { return c.post(peer, b) }
func (c *handComm) Irecv(peer int, b p2p.Buffer) *p2p.Request { return c.post(peer, b) }
func (c *handComm) Run(context.Context) error                 { return nil }

func (c *handComm) Close() error {
	for {
		select {
		case done := <-c.posted:
			done.Complete(p2p.ErrClosed)
		default:
			return nil
		}
	}
}

func TestPullBeforePushBeforeBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var granted []string
		in := newInflow(2, 10, func(f frame) { granted = append(granted, fmt.Sprintf("%d.%d:%d", f.id, f.chunk, f.bytes)) })
		comm := newHandComm()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- in.run(ctx, comm, 1) }()
		step := func(n int) {
			for range n {
				(<-comm.posted).Complete(nil)
				synctest.Wait()
			}
		}
		background := newReceiving(1, Background, make([]byte, 45))
		in.add(background)
		synctest.Wait() // two of its chunks are out
		in.add(newReceiving(2, Push, make([]byte, 15)))
		in.add(newReceiving(3, Pull, make([]byte, 20)))
		in.add(newReceiving(4, Pull, make([]byte, 1)))
		synctest.Wait()
		step(7)
		in.abort(background, errors.New("enough")) // one chunk of it is granted, one not
		select {
		case <-background.done:
			t.Error("ended while a chunk was on its way")
		default:
		}
		step(2)
		<-background.done
		got := strings.Join(granted, " ")
		if want := "1.0:10 1.1:10 3.0:10 3.1:10 4.0:1 2.0:10 2.1:5 1.2:10 1.3:10"; got != want {
			t.Errorf("granted %s\nwant    %s", got, want)
		}
		late := newReceiving(5, Pull, make([]byte, 5))
		in.add(late)
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("inflow ended with %v", err)
		}
		if <-late.done; !errors.Is(late.err, p2p.ErrClosed) {
			t.Errorf("what was on its way ended with %v", late.err)
		}
	})
}

func TestSendsFollowGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, comm := newOutflow(), newHandComm()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- o.run(ctx, comm, 1) }()
		a := newSending([][]byte{[]byte("ab"), nil, []byte("cdef"), []byte("ghij")}, 10)
		b := newSending([][]byte{[]byte("12345")}, 5)
		admit := func(s *sending, chunk, n uint32) error { return o.admit(s, frame{chunk: chunk, bytes: n}) }
		for _, err := range []error{admit(a, 0, 3), admit(b, 0, 2), admit(a, 1, 3), admit(a, 2, 3)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for i, err := range []error{admit(a, 2, 1), admit(a, 4, 1), admit(a, 3, 2), admit(b, 1, 4)} {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("bad grant %d: %v", i, err)
			}
		}
		synctest.Wait()
		o.cancel(b, errors.New("enough"))
		select {
		case <-b.done:
			t.Error("let go of memory that is being sent")
		default:
		}
		if err := admit(b, 1, 3); err != nil {
			t.Errorf("a grant for a cancelled body: %v", err)
		}
		synctest.Wait()
		var sent []string
		for range 5 {
			sent = append(sent, string(<-comm.bufs))
			(<-comm.posted).Complete(nil)
		}
		if want := []string{"abc", "12", "def", "ghi", "\x00\x00\x00"}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
		<-b.done
		if err := admit(b, 2, 1); !errors.Is(err, ErrMalformed) {
			t.Errorf("a grant after the last byte: %v", err)
		}
		c := newSending([][]byte{[]byte("secret")}, 6)
		o.cancel(c, errors.New("enough"))
		for i := range uint32(2) { // in memory that held other bytes before
			if err := admit(c, i, 3); err != nil {
				t.Error(err)
			}
			if got := string(<-comm.bufs); got != "\x00\x00\x00" {
				t.Errorf("for a cancelled body %q was sent", got)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("outflow ended with %v", err)
		}
	})
}

func TestOutboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		call := frame{kind: kindCall, bodyLen: MaxInline}
		body := [][]byte{make([]byte, MaxInline)}
		sent, gone := 0, make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for o.send(call, body, nil, gone) {
				sent++
			}
		}()
		synctest.Wait()
		if most := outboxRoom/MaxInline + 1; sent < 2 || sent > most {
			t.Errorf("%d calls were taken, at most %d have room", sent, most)
		}
		o.post(frame{kind: kindHeartbeat}) // is never held up
		first := sent
		if got := len(o.take()); got < first*MaxInline {
			t.Errorf("%d bytes for the writer", got)
		}
		synctest.Wait()
		if sent != 2*first {
			t.Errorf("%d calls more were taken after the writer took %d", sent-first, first)
		}
		close(gone)
		<-ended
	})
}
