package region_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/shm/region"
)

// openAll opens a region at some ranks of a world of this process.
func openAll(ctx context.Context, comms []p2p.Comm, ranks []int, config region.Config) ([]*region.Region, []error) {
	regions, errs := make([]*region.Region, len(comms)), make([]error, len(comms))
	var wg sync.WaitGroup
	for _, r := range ranks {
		wg.Go(func() { regions[r], errs[r] = region.Open(ctx, comms[r], ranks, config) })
	}
	wg.Wait()
	return regions, errs
}

func TestOpen(t *testing.T) {
	before := files(t)
	comms := inproc.World(5)
	for _, ranks := range [][]int{{0, 1, 2, 3, 4}, {3, 1}, {2}} {
		regions, errs := openAll(t.Context(), comms, ranks, region.Config{Memory: 1 << 20})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for i, r := range ranks {
			me := regions[r]
			if me.Rank() != i || me.Size() != len(ranks) {
				t.Errorf("rank %d is %d of %d in the region of %v", r, me.Rank(), me.Size(), ranks)
			}
			b, err := me.Alloc(16)
			if err != nil {
				t.Fatal(err)
			}
			b[8] = byte(r)
			me.Post(0, 1)
		}
		for _, r := range ranks {
			for i, other := range ranks {
				if err := regions[r].Await(t.Context(), i, 0, 1); err != nil || regions[r].Memory(i)[8] != byte(other) {
					t.Errorf("rank %d does not see rank %d: %v", r, other, err)
				}
			}
		}
		for _, r := range ranks {
			if err := regions[r].Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := region.Open(t.Context(), comms[0], []int{1, 2}, region.Config{}); !errors.Is(err, p2p.ErrRank) {
		t.Errorf("open a region of others: %v", err)
	}
	if after := files(t); after > before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

// meddler changes what its rank sends.
type meddler struct {
	p2p.Comm
	change func(b []byte)
}

func (m meddler) Isend(peer int, b p2p.Buffer) *p2p.Request {
	changed := slices.Clone(b.Host())
	m.change(changed)
	return m.Comm.Isend(peer, p2p.Bytes(changed))
}

// If one rank cannot map the memory nobody has it, and the Comm can be used for something else.
func TestNotLocal(t *testing.T) {
	for what, c := range map[string]struct {
		rank   int
		change func(b []byte)
	}{
		"another nonce":       {0, func(b []byte) { b[40]++ }},
		"another descriptor":  {0, func(b []byte) { b[24] += 100 }},
		"another user":        {0, func(b []byte) { b[20]++ }},
		"another length":      {0, func(b []byte) { b[33] += 16 }},
		"no memory":           {0, func(b []byte) { b[7] = 0 }},
		"it is not mapped":    {2, func(b []byte) { b[7] = 0 }},
		"other memory mapped": {2, func(b []byte) { b[41]++ }},
	} {
		t.Run(what, func(t *testing.T) {
			before := files(t)
			comms := inproc.World(4)
			comms[c.rank] = meddler{comms[c.rank], c.change}
			_, errs := openAll(t.Context(), comms, []int{0, 1, 2, 3}, region.Config{Memory: 1 << 20})
			for r, err := range errs {
				if !errors.Is(err, region.ErrNotLocal) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			if m, ok := comms[c.rank].(meddler); ok {
				comms[c.rank] = m.Comm
			}
			var wg sync.WaitGroup
			for r := range comms {
				wg.Go(func() {
					in, out := []byte{0}, []byte{byte(r)}
					next, last := (r+1)%4, (r+3)%4
					sent := comms[r].Isend(next, p2p.Bytes(out))
					err := errors.Join(p2p.Recv(t.Context(), comms[r], last, p2p.Bytes(in)), sent.Wait(t.Context()))
					if err != nil || in[0] != byte(last) {
						t.Errorf("rank %d gets %d: %v", r, in[0], err)
					}
				})
			}
			wg.Wait()
			if after := files(t); after > before {
				t.Errorf("%d files are open, %d were", after, before)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	for what, change := range map[string]func(b []byte){
		"no message": func(b []byte) { b[0]++ },
		"version":    func(b []byte) { b[4]++ },
		"kind":       func(b []byte) { b[6]++ },
		"rank":       func(b []byte) { b[8]++ },
		"ranks":      func(b []byte) { b[12]++ },
		"reserved":   func(b []byte) { b[63]++ },
	} {
		comms := inproc.World(2)
		comms[1] = meddler{comms[1], change}
		ctx, cancel := context.WithCancel(t.Context())
		joined := make(chan error, 1)
		go func() {
			_, err := region.Open(ctx, comms[1], nil, region.Config{})
			joined <- err
		}()
		_, err := region.Open(ctx, comms[0], nil, region.Config{})
		cancel() // of rank 1, which would wait for an answer
		if joined := <-joined; !errors.Is(err, p2p.ErrCorrupt) || !errors.Is(joined, context.Canceled) {
			t.Errorf("%s: %v, and at the other rank %v", what, err, joined)
		}
	}
	comms := inproc.World(2)
	if _, err := region.Open(t.Context(), comms[0], nil, region.Config{Timeout: 10 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open alone: %v", err)
	}
}

func Example() {
	var ranks sync.WaitGroup
	for r, comm := range inproc.World(2) {
		ranks.Go(func() {
			ctx := context.Background()
			me, err := region.Open(ctx, comm, nil, region.Config{})
			if err != nil {
				fmt.Println(err)
				return
			}
			defer me.Close()
			b, _ := me.Alloc(100)
			copy(b[8:], []string{"ping", "pong"}[r])
			me.Post(0, 1) // the first 8 bytes say that the others are there
			if err := me.Await(ctx, 1-r, 0, 1); err == nil && r == 0 {
				fmt.Printf("%s\n", me.Memory(1)[8:12])
			}
		})
	}
	ranks.Wait()
	// Output: pong
}
