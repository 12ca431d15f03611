package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hcclps/p2p"
	"hcclps/p2p/shm/region"
)

// ShareConfig is how Share does it. The zero value is good.
type ShareConfig = region.Config

// Share makes the memory that ranks of one host share for collectives, beside comm. hosts has a number by rank, equal
// for ranks of one host; nil: all are on one. All ranks call it, before anything else is sent over comm. It is nil, at
// all ranks, if those of any host cannot share memory; collectives work without. After an error comm must be closed.
// The caller closes the region when the group that uses it has ended and nobody touches its memory any more.
func Share(ctx context.Context, comm p2p.Comm, hosts []int, config region.Config) (*region.Region, error) {
	if hosts == nil {
		hosts = make([]int, comm.Size())
	}
	if len(hosts) != comm.Size() {
		return nil, fmt.Errorf("share memory: %d numbers of hosts for %d ranks: %w", len(hosts), comm.Size(), p2p.ErrLength)
	}
	var neighbours []int
	for r, h := range hosts {
		if h == hosts[comm.Rank()] {
			neighbours = append(neighbours, r)
		}
	}
	r, err := region.Open(ctx, comm, neighbours, config)
	if err != nil && !errors.Is(err, region.ErrNotLocal) {
		return nil, err
	}
	all := err == nil
	if len(neighbours) < len(hosts) {
		if all, err = agree(ctx, comm, all); err != nil {
			err = fmt.Errorf("agree on shared memory: %w", err)
		}
	} else {
		err = nil
	}
	if all && err == nil {
		return r, nil
	}
	if r != nil {
		err = errors.Join(err, r.Close())
	}
	return nil, err
}

// agree says whether all ranks say yes.
func agree(ctx context.Context, comm p2p.Comm, yes bool) (bool, error) {
	said := []byte{0}
	if yes {
		said[0] = 1
	}
	if comm.Rank() > 0 {
		if err := p2p.Send(ctx, comm, 0, p2p.Bytes(said)); err != nil {
			return false, err
		}
		err := p2p.Recv(ctx, comm, 0, p2p.Bytes(said))
		return said[0] == 1, err
	}
	votes := slices.Repeat(said, comm.Size())
	for r := 1; r < comm.Size(); r++ {
		if err := p2p.Recv(ctx, comm, r, p2p.Bytes(votes[r:r+1])); err != nil {
			return false, err
		}
	}
	said[0] = slices.Min(votes)
	for r := 1; r < comm.Size(); r++ {
		if err := p2p.Send(ctx, comm, r, p2p.Bytes(said)); err != nil {
			return false, err
		}
	}
	return said[0] == 1, nil
}
