package shm_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// TestMixed sends messages of all kinds in both directions at once, and waits for them in all ways, with pauses in which the other side goes to
// sleep. Nobody may wait for a wake that does not come.
func TestMixed(t *testing.T) {
	leavesNothing(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	a, b := sockets(t, "unix", filepath.Join(t.TempDir(), "s"))
	config := shm.Config{Ring: 64 << 10, Logger: logger}
	comms, errs := negotiate(t, a, b, [2]shm.Config{config, config})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	var running, playing sync.WaitGroup
	for rank, c := range comms {
		running.Go(func() { _ = c.Run(t.Context()) })
		const seed = 5
		playing.Go(func() {
			play(t, rank, func(n int, i byte) *p2p.Request { return sendMixed(c, 1-rank, n, i) }, rank, seed)
		})
		playing.Go(func() {
			play(t, rank, func(n int, i byte) *p2p.Request { return recvMixed(c, 1-rank, n, i) }, 1-rank, seed)
		})
	}
	playing.Wait()
	for _, c := range comms {
		_ = c.Close()
	}
	running.Wait()
	if n := bytes.Count(log.Bytes(), []byte("did not wake")); n > 1 { // one may have come as the time was up
		t.Errorf("%d lost wakes:\n%s", n, log.Bytes())
	}
}

// play begins transfers of the direction, up to four at a time, and waits for them.
func play(t *testing.T, rank int, begin func(n int, i byte) *p2p.Request, direction, seed int) {
	t.Helper()
	sizes := rand.New(rand.NewPCG(uint64(direction), uint64(seed))) // the same at both ranks
	ways := rand.New(rand.NewPCG(uint64(rank), uint64(direction)))
	var reqs []*p2p.Request
	for i := range 3000 {
		n := sizes.IntN(300)
		if sizes.IntN(20) == 0 {
			n = sizes.IntN(300_000)
		}
		reqs = append(reqs, begin(n, byte(i)))
		if ways.IntN(100) == 0 {
			<-time.After(time.Duration(ways.IntN(2000)) * time.Microsecond)
		}
		for len(reqs) > ways.IntN(5) {
			if ways.IntN(2) == 0 {
				select {
				case <-reqs[0].Done():
				case <-t.Context().Done():
				}
			}
			if err := reqs[0].Wait(t.Context()); err != nil {
				t.Errorf("rank %d: %v", rank, err)
				return
			}
			reqs = reqs[1:]
		}
	}
	for _, r := range reqs {
		if err := r.Wait(t.Context()); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func sendMixed(c *shm.Comm, peer, n int, i byte) *p2p.Request {
	if i%3 != 0 {
		return c.Isend(peer, p2p.Bytes(bytes.Repeat([]byte{i}, n)))
	}
	return c.IsendFunc(peer, n, func(piece []byte) error {
		for j := range piece {
			piece[j] = i
		}
		return nil
	})
}

// recvMixed checks the contents of half of the messages.
func recvMixed(c *shm.Comm, peer, n int, i byte) *p2p.Request {
	if i%4 < 2 {
		return c.Irecv(peer, p2p.Bytes(make([]byte, n)))
	}
	return c.IrecvFunc(peer, n, func(piece []byte) error {
		for _, x := range piece {
			if x != i {
				return fmt.Errorf("%w: message %d holds %d", p2p.ErrCorrupt, i, x)
			}
		}
		return nil
	})
}
