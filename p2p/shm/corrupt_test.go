package shm

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"hcclps/p2p"
)

// pair makes two ranks, that do not run.
func pair(t *testing.T) [2]*Comm {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var comms [2]*Comm
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() {
		var conn net.Conn
		if conn, errs[0] = net.Dial("tcp", l.Addr().String()); errs[0] == nil {
			comms[0], errs[0] = Negotiate(t.Context(), conn, 0, Config{})
		}
	})
	conn, err := l.Accept()
	if err == nil {
		comms[1], err = Negotiate(t.Context(), conn, 1, Config{})
	}
	errs[1] = err
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return comms
}

// A peer that writes nonsense is found out, and told.
func TestNonsense(t *testing.T) {
	nonsense := map[string]func(m *memory){
		"head goes back": func(m *memory) { m.words[1].head.Store(64) },
		"head too far":   func(m *memory) { m.words[1].head.Add(m.ring + 64) },
		"half a line":    func(m *memory) { m.words[1].head.Add(8) },
		"tail goes back": func(m *memory) { m.words[1].tail.Store(0) },
		"tail too far":   func(m *memory) { m.words[1].tail.Add(1 << 40) },
		"state":          func(m *memory) { m.words[1].state.Store(77) },
		"no header":      func(m *memory) { m.words[1].head.Add(64) },
		"bad header": func(m *memory) {
			h := header{length: 10, number: 2, kind: kindPlace, place: m.arena[1]}
			h.put(m.ringOf(1)[128:192])
			m.words[1].head.Add(64)
		},
		"other number": func(m *memory) {
			h := header{length: 10, number: 1, kind: kindInline}
			h.put(m.ringOf(1)[128:192])
			m.words[1].head.Add(64)
		},
	}
	for name, spoil := range nonsense {
		t.Run(name, func(t *testing.T) {
			comms := pair(t)
			var ran sync.WaitGroup
			for _, c := range comms {
				ran.Go(func() { _ = c.Run(t.Context()) })
			}
			for range 2 {
				for r, c := range comms {
					recv := comms[1-r].Irecv(r, p2p.Bytes(make([]byte, 10)))
					if err := errors.Join(c.Isend(1-r, p2p.Bytes(make([]byte, 10))).Wait(t.Context()), recv.Wait(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
			}
			send := comms[0].Isend(1, p2p.Bytes(make([]byte, 10)))
			spoil(comms[0].engine.mem)
			recv := comms[0].Irecv(1, p2p.Bytes(make([]byte, 10)))
			for _, r := range []*p2p.Request{send, recv} {
				if err := r.Wait(t.Context()); !errors.Is(err, p2p.ErrCorrupt) {
					t.Error(err)
				}
			}
			ran.Wait()
			if err := comms[1].Irecv(0, p2p.Bytes(nil)).Wait(context.Background()); !errors.Is(err, p2p.ErrClosed) || !errors.Is(err, p2p.ErrPeer) && !errors.Is(err, p2p.ErrCorrupt) {
				t.Errorf("at the peer: %v", err)
			}
		})
	}
}
