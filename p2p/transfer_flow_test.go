package p2p_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
)

// byHand is one end of a Transfer whose Comm and peer are the test.
type byHand struct {
	*p2p.Transfer
	signals chan p2p.Signal
	comm    *handComm
	ended   chan error
	stop    context.CancelFunc
}

// handComm is a Comm whose requests complete when the test says so, and with
// [p2p.ErrClosed] from Close on.
type handComm struct {
	mu     sync.Mutex
	closed bool
	posted chan p2p.Completion
	bufs   chan []byte     // of requests
	takes  chan func(byte) // of those that take pieces; nil: it is not Piecewise
	calm   bool
}

func (c *handComm) Confirms() bool { return true }
func (c *handComm) Patient() bool  { return c.calm }

func (c *handComm) Rank() int { return 0 }
func (c *handComm) Size() int { return 2 }

// post leaves a request over buf, nil of one that takes pieces, to the test.
func (c *handComm) post(buf []byte) *p2p.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return p2p.Failed(p2p.ErrClosed)
	}
	r, done := p2p.NewRequest()
	c.bufs <- buf
	c.posted <- done
	return r
}

func (c *handComm) Isend(_ int, b p2p.Buffer) *p2p.Request { return c.post(b.Host()) }
func (c *handComm) Irecv(_ int, b p2p.Buffer) *p2p.Request { return c.post(b.Host()) }

// handPieces is a handComm that is Piecewise.
type handPieces struct{ *handComm }

func (c *handPieces) IsendFunc(_, n int, fill func([]byte) error) *p2p.Request {
	b := make([]byte, n)
	if err := fill(b); err != nil {
		return p2p.Failed(err)
	}
	return c.post(b)
}

// IrecvFunc leaves its function in takes.
func (c *handPieces) IrecvFunc(_, n int, take func([]byte) error) *p2p.Request {
	r := c.post(nil)
	c.takes <- func(fill byte) { _ = take(bytes.Repeat([]byte{fill}, n)) }
	return r
}

func (c *handComm) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (c *handComm) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for {
		select {
		case done := <-c.posted:
			done.Complete(p2p.ErrClosed)
		default:
			return nil
		}
	}
}

func newByHand(t *testing.T, policy p2p.Policy) *byHand {
	t.Helper()
	return newByHandOver(t, policy, func(c *handComm) p2p.RunningComm {
		if c.takes != nil {
			return &handPieces{c}
		}
		return c
	})
}

// newByHandOver is newByHand over what wrap makes of its Comm.
func newByHandOver(t *testing.T, policy p2p.Policy, wrap func(*handComm) p2p.RunningComm) *byHand {
	t.Helper()
	h := &byHand{
		signals: make(chan p2p.Signal, 1000), ended: make(chan error, 1),
		comm: &handComm{posted: make(chan p2p.Completion, 100), bufs: make(chan []byte, 100)},
	}
	var err error
	h.Transfer, err = p2p.NewTransfer(p2p.TransferConfig{
		Peer: "hand", Policy: policy,
		Open: func(context.Context, uint32) (p2p.RunningComm, error) { return wrap(h.comm), nil },
		Post: func(s p2p.Signal) { h.signals <- s },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	h.stop = stop
	go func() { h.ended <- h.Run(ctx) }()
	return h
}

// end stops the Transfer and waits for it.
func (h *byHand) end(t *testing.T) {
	t.Helper()
	h.stop()
	if err := <-h.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
}

// complete ends the oldest n requests well.
func (h *byHand) complete(n int) {
	for range n {
		(<-h.comm.posted).Complete(nil)
		synctest.Wait()
	}
}

// said returns the signals so far.
func (h *byHand) said() string {
	var all []string
	for len(h.signals) > 0 {
		s := <-h.signals
		name := map[p2p.SignalKind]string{p2p.SignalGrant: "", p2p.SignalVoid: "void ", p2p.SignalDropped: "dropped ", p2p.SignalReset: "reset ", p2p.SignalCredit: "credit ", p2p.SignalUnasked: "unasked "}[s.Kind]
		all = append(all, fmt.Sprintf("%s%d.%d:%d", name, s.ID, s.Offset, s.Bytes))
	}
	return strings.Join(all, " ")
}

func TestPullBeforePushBeforeBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newByHand(t, p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 10}, Window: p2p.WindowPolicy{Chunks: 2}})
		background := h.Receive(1, p2p.Background, make([]byte, 45))
		synctest.Wait() // two of its chunks are out
		h.Receive(2, p2p.Push, make([]byte, 15))
		h.Receive(3, p2p.Pull, make([]byte, 20))
		h.Receive(4, p2p.Pull, make([]byte, 1))
		synctest.Wait()
		h.complete(7)
		background.Cancel(errors.New("enough")) // one chunk of it is granted, one not
		select {
		case <-background.Done():
			t.Error("ended while a chunk was on its way")
		default:
		}
		h.complete(2)
		<-background.Done()
		want := "1.0:10 1.10:10 3.0:10 3.10:10 4.0:1 2.0:10 2.10:5 1.20:10 1.30:10 dropped 1.0:0"
		if got := h.said(); got != want {
			t.Errorf("said %s\nwant %s", got, want)
		}
		late := h.Receive(5, p2p.Pull, make([]byte, 5))
		synctest.Wait()
		h.stop()
		if err := <-h.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
		<-late.Done()
		if err := late.Err(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "receive 5 with hand: 0 of 5 bytes") {
			t.Errorf("what was on its way ended with %v", err)
		}
		if in := h.Receive(6, p2p.Pull, make([]byte, 5)); !errors.Is(in.Err(), p2p.ErrClosed) {
			t.Errorf("after the end: %v", in.Err())
		}
	})
}

func TestSendsFollowGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newByHand(t, p2p.Policy{})
		grant := func(id, off uint64, n uint32) error {
			return h.Signalled(p2p.Signal{Kind: p2p.SignalGrantSure, ID: id, Offset: off, Bytes: n})
		}
		a := h.Send(1, []byte("ab"), nil, []byte("cdef"), []byte("ghij"))
		b := h.Send(2, []byte("12345"))
		for _, err := range []error{grant(1, 0, 3), grant(2, 0, 2), grant(1, 3, 3), grant(1, 6, 3)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for i, err := range []error{grant(1, 6, 1), grant(1, 10, 1), grant(1, 9, 2), grant(2, 3, 1), grant(2, 2, 4), grant(3, 0, 1)} {
			if !errors.Is(err, p2p.ErrMalformed) {
				t.Errorf("bad grant %d: %v", i, err)
			}
		}
		synctest.Wait()
		b.Cancel(errors.New("enough"))
		select {
		case <-b.Done():
			t.Error("let go of memory that is being sent")
		default:
		}
		if err := grant(2, 2, 3); err != nil {
			t.Errorf("a grant for what was given up: %v", err)
		}
		var sent []string
		for range 4 {
			sent = append(sent, string(<-h.comm.bufs))
			h.complete(1)
		}
		if want := []string{"abc", "12", "def", "ghi"}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
		<-b.Done()
		if len(h.comm.bufs) > 0 {
			t.Error("other bytes went before the peer said that it takes them for nothing")
		}
		if err := h.Signalled(p2p.Signal{Kind: p2p.SignalDropped, ID: 2}); err != nil {
			t.Error(err)
		}
		if got := string(<-h.comm.bufs); got != "\x00\x00\x00" { // in memory that held other bytes before
			t.Errorf("for what was given up %q was sent", got)
		}
		h.complete(1)
		if err := grant(2, 5, 1); !errors.Is(err, p2p.ErrMalformed) {
			t.Errorf("a grant after the peer dropped it: %v", err)
		}
		select {
		case <-a.Done():
			t.Error("done before its last byte was asked for")
		default:
		}
		if got := h.said(); got != "void 2.0:0" {
			t.Errorf("said %s", got)
		}
		h.end(t)
		<-a.Done()
		var fault *p2p.TransferError
		if !errors.As(a.Err(), &fault) || fault.Done != 9 || fault.Total != 10 {
			t.Errorf("what was not sent whole ended with %v", a.Err())
		}
	})
}

func TestNonsenseIsMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, signals := range map[string][]p2p.Signal{
			"unknown kind":        {{Kind: 99}},
			"grant of 9th epoch":  {{Kind: p2p.SignalGrant, Epoch: 9, ID: 1, Bytes: 1}},
			"pause of 9th epoch":  {{Kind: p2p.SignalPause, Epoch: 9}},
			"two pauses":          {{Kind: p2p.SignalPause}, {Kind: p2p.SignalPause}},
			"grant after pause":   {{Kind: p2p.SignalPause}, {Kind: p2p.SignalGrant, ID: 1, Bytes: 1}},
			"reset of 9th epoch":  {{Kind: p2p.SignalReset, Epoch: 9}},
			"chunks nobody sent":  {{Kind: p2p.SignalReset, Offset: 5}},
			"grant after reset":   {{Kind: p2p.SignalReset}, {Kind: p2p.SignalGrant, ID: 1, Bytes: 1}},
			"taken, not sent":     {{Kind: p2p.SignalGrant, ID: 1, Bytes: 1}, {Kind: p2p.SignalTaken, Offset: 2}},
			"taken of 9th epoch":  {{Kind: p2p.SignalTaken, Epoch: 9}},
			"two resets":          {{Kind: p2p.SignalReset}, {Kind: p2p.SignalReset}},
			"flood of grants":     floodOfGrants(),
			"grant over the end":  {{Kind: p2p.SignalGrant, ID: 1, Bytes: 1001}},
			"grant from mid-body": {{Kind: p2p.SignalGrant, ID: 1, Offset: 5, Bytes: 1}},
		} {
			h := newByHand(t, p2p.Policy{})
			h.Send(1, make([]byte, 1000))
			var err error
			for _, s := range signals {
				if err == nil {
					err = h.Signalled(s)
				}
			}
			if !errors.Is(err, p2p.ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
			h.end(t)
		}
	})
}

func floodOfGrants() []p2p.Signal {
	var all []p2p.Signal
	for i := range uint64(4 * p2p.MaxWindow) {
		all = append(all, p2p.Signal{Kind: p2p.SignalGrant, ID: 1, Offset: i, Bytes: 1})
	}
	return all
}

// A pull asked for while a push is under way waits for a window of it at most.
func TestPullOvertakesLongPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 4096}}})
		const size = 400 << 12 // 400 chunks
		push, pull := make([]byte, size), make([]byte, 10_000)
		r.ends[0].Send(1, noise(1, size))
		r.ends[0].Send(2, noise(2, len(pull)))
		before := uint64(0)
		watched := &tap{n: len(pull), take: func(off int, p []byte) error {
			before = r.ends[1].Stats().Received
			copy(pull[off:], p)
			return nil
		}}
		asked := make(chan *p2p.Incoming, 1)
		long := r.ends[1].ReceiveInto(1, p2p.Push, &tap{n: size, take: func(off int, p []byte) error {
			copy(push[off:], p)
			if off == 0 {
				asked <- r.ends[1].ReceiveInto(2, p2p.Pull, watched)
			}
			return nil
		}})
		urgent := <-asked
		r.wait(urgent.Done())
		r.wait(long.Done())
		if before > 30*4096 || !bytes.Equal(pull, noise(2, len(pull))) || !bytes.Equal(push, noise(1, size)) {
			t.Errorf("the pull was there after %d bytes of the push", before)
		}
	})
}
