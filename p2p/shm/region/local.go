package region

import (
	"crypto/rand"
	"errors"
	"runtime"

	"golang.org/x/sys/unix"

	"hcclps/p2p/shm/memfd"
)

// Local makes the regions of n ranks that are goroutines of this process. Each has a mapping of its own and must be closed.
func Local(n int, config Config) ([]*Region, error) {
	_, l, err := config.withDefaults(n)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	fd, err := create(l, nonce)
	if err != nil {
		return nil, err
	}
	var all []*Region
	for rank := range n {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			var m *mapping
			if m, err = attach(l, own); err == nil {
				r := newRegion(rank, m, own, make([]process, n))
				r.local, r.crowd = true, true
				all = append(all, r)
				continue
			}
			err = errors.Join(err, memfd.Close(own))
		}
		for _, r := range all {
			err = errors.Join(err, r.Close())
		}
		return nil, errors.Join(err, memfd.Close(fd))
	}
	return all, memfd.Close(fd)
}

func newRegion(rank int, m *mapping, fd int, peers []process) *Region {
	memfd.Populate(m.bytes[:m.control()])
	return &Region{rank: rank, mem: m, file: fd, peers: peers, crowd: len(peers) > runtime.NumCPU()}
}
