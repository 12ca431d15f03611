package backend_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/inproc"
	"hcclps/p2p/shm/region"
)

// stranger is a Comm whose rank cannot map the memory that it is offered.
type stranger struct{ p2p.Comm }

func (s stranger) Isend(peer int, b p2p.Buffer) *p2p.Request {
	sent := slices.Clone(b.Host())
	if len(sent) == 64 {
		sent[7] = 0 // it says that it has not
	}
	return s.Comm.Isend(peer, p2p.Bytes(sent))
}

func TestShare(t *testing.T) {
	for what, c := range map[string]struct {
		hosts    []int
		stranger int // none: -1
	}{
		"one host":                   {nil, -1},
		"two hosts and a rank alone": {[]int{7, 3, 7, 3, 5}, -1},
		"a stranger":                 {nil, 3},
		"a stranger on one host":     {[]int{7, 3, 7, 3, 5}, 3},
	} {
		t.Run(what, func(t *testing.T) {
			comms := inproc.World(5)
			if c.stranger >= 0 {
				comms[c.stranger] = stranger{comms[c.stranger]}
			}
			regions, errs := make([]*region.Region, len(comms)), make([]error, len(comms))
			var wg sync.WaitGroup
			for r, comm := range comms {
				wg.Go(func() {
					regions[r], errs[r] = backend.Share(t.Context(), comm, c.hosts, region.Config{Memory: 1 << 20})
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for r, got := range regions {
				if (got != nil) != (c.stranger < 0) {
					t.Errorf("rank %d has a region: %v", r, got != nil)
				}
				if got == nil {
					continue
				}
				if c.hosts != nil && got.Size() != []int{2, 2, 2, 2, 1}[r] {
					t.Errorf("rank %d shares memory with %d", r, got.Size())
				}
				if err := got.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := backend.Share(t.Context(), inproc.World(3)[0], []int{1, 2}, region.Config{}); !errors.Is(err, p2p.ErrLength) {
		t.Errorf("two hosts for three ranks: %v", err)
	}
}
