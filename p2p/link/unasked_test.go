package link_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/link"
)

// What comes unasked and is not wanted holds up nothing, on either side, however long it lies there.
func TestUnaskedBodiesThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		w := start(t, echo(func(ctx context.Context, r *link.Request) {
			switch string(r.Head) {
			case "refuse":
				_ = r.Reply([]byte("no"))
			case "wait":
				select {
				case <-free:
				case <-ctx.Done():
					return
				}
				b, err := r.Body(ctx)
				checkSoft(t, err)
				_ = r.Reply([]byte(fmt.Sprint(len(b))))
			case "much":
				_ = r.Reply(nil, noise(500_000, 3))
			}
		}), func(s *settings) { s.client.Pair, s.server.Pair = calmPair, calmPair })
		w.ping()
		for range 30 {
			r, err := w.call(link.Call{Head: []byte("refuse"), Body: [][]byte{noise(3<<20, 1)}})
			if err != nil || string(r.Head) != "no" {
				t.Fatalf("%q, %v", r.Head, err)
			}
			if _, err := w.call(link.Call{Head: []byte("much"), Alloc: func(int) ([]byte, error) { return nil, errors.New("no room") }}); err == nil {
				t.Fatal("a body without room was received")
			}
			short, stop := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := w.client.Call(short, addr, link.Call{Head: []byte("wait"), Body: [][]byte{noise(400_000, 1)}}); err == nil {
				t.Fatal("a call that nobody answers ended well")
			}
			stop()
			w.ping()
		}
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				r, err := w.client.Call(t.Context(), addr, link.Call{Head: []byte("wait"), Body: [][]byte{noise(400_000, 2)}})
				if err == nil && string(r.Head) != "400000" {
					err = fmt.Errorf("%s bytes came", r.Head)
				}
				ended <- err
			}()
		}
		<-time.After(50 * time.Second) // much longer than a chunk may take that was asked for
		w.ping()
		close(free)
		check(t, errors.Join(<-ended, <-ended))
		if s := w.client.Stats(); s.Resets != 0 {
			t.Errorf("%+v", s)
		}
	})
}
