package hccl

import (
	"errors"
	"log/slog"
	"math"
	"net"
	"testing"

	"hcclps/p2p"
)

// lone is a Comm without a device, for what it does before it issues anything.
func lone(t *testing.T, rank int) *Comm {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	c := &Comm{
		d: &Device{log: slog.New(slog.DiscardHandler)}, rank: rank, ctl: newControl(near), bond: newBond("lone"), piece: 4096,
		ending: make(chan struct{}), settle: make(chan struct{}), lost: make(chan struct{}), wrote: make(chan struct{}, 1),
		idle: []*mark{{}},
	}
	for f := range flows {
		c.half[f] = newHalf(f, f == rank)
	}
	if rank == 0 {
		c.plan = &plan{piece: 4096, whole: wholeStep}
	}
	return c
}

func TestPeerBreaksProtocol(t *testing.T) {
	tests := []struct {
		what string
		rank int // of this side
		f    frame
	}{
		{"a post to rank 1", 1, frame{kind: kindPost, n: 5}},
		{"a step to rank 0", 0, frame{kind: kindStep, n: 5, last: true}},
		{"a message longer than memory", 0, frame{kind: kindPost, n: math.MaxUint64}},
		{"pieces staged by the receiver", 0, frame{kind: kindStaged, flow: 0, n: 1}},
		{"room from the sender", 0, frame{kind: kindRoom, flow: 1, n: 1}},
		{"room for more than there is", 0, frame{kind: kindRoom, n: maxAhead + 1}},
		{"a hello in the middle", 1, frame{kind: kindHello}},
	}
	for _, test := range tests {
		c := lone(t, test.rank)
		if err := c.handle(test.f); !errors.Is(err, errFrame) || !errors.Is(err, p2p.ErrPeer) {
			t.Errorf("%s: %v", test.what, err)
		}
	}
	steps := []struct {
		what string
		post int // bytes of a receive that has no slot yet, -1 for none
		f    frame
	}{
		{"a step for no message", -1, frame{kind: kindStep, n: 5, last: true}},
		{"an empty step for no message", -1, frame{kind: kindStep, last: true}},
		{"a step that was not offered", 5, frame{kind: kindStep, n: 5, last: true}},
		{"a step longer than its message", 5, frame{kind: kindStep, n: 6, last: true}},
		{"a last step that is too short", 5, frame{kind: kindStep, n: 4, last: true}},
		{"an empty step of a message", 5, frame{kind: kindStep, n: 0}},
	}
	for _, test := range steps {
		c := lone(t, 1)
		var req *p2p.Request
		if test.post >= 0 {
			req = c.Irecv(0, p2p.Bytes(make([]byte, test.post)))
		}
		if err := c.handle(test.f); err != nil {
			t.Errorf("%s: %v", test.what, err)
		}
		if !errors.Is(c.cause, p2p.ErrPeer) || !c.broken.Load() || !c.settled {
			t.Errorf("%s: cause %v, broken %v, settled %v", test.what, c.cause, c.broken.Load(), c.settled)
		}
		if req != nil {
			select {
			case <-req.Done():
				t.Errorf("%s: the receive completed before the Comm let go of it", test.what)
			default:
			}
		}
	}
}

func TestFarewells(t *testing.T) {
	for _, test := range []struct {
		f    frame
		want error
	}{
		{frame{kind: kindBye}, p2p.ErrPeer},
		{frame{kind: kindBye, flow: byeLength, n: 1, m: 2, data: []byte{0}}, p2p.ErrLength},
		{frame{kind: kindBye, flow: byeLength}, p2p.ErrPeer},
		{frame{kind: kindBye, flow: byeFault, data: []byte("it\nbroke")}, p2p.ErrPeer},
	} {
		c := lone(t, 1)
		if err := c.handle(test.f); err != nil || !errors.Is(c.cause, test.want) {
			t.Errorf("%+v: %v, cause %v", test.f, err, c.cause)
		}
		if !c.drained || len(c.out) != 2*frameHead {
			t.Errorf("%+v: drained %v, %d bytes to say", test.f, c.drained, len(c.out))
		}
	}
}
