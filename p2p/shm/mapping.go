package shm

import (
	"bytes"
	"encoding/hex"
	"errors"

	"hcclps/p2p/shm/memfd"
)

// nonceBytes is the length of the number by which memory is recognised.
const nonceBytes = 16

func memoryName(nonce []byte) string { return "hcclps-" + hex.EncodeToString(nonce) }

// createMemory makes the memory of a pair. Rings are backed at once; arenas when they are used.
func createMemory(l layout, nonce []byte) (m *memory, fd int, err error) {
	fd, err = memfd.Create(memoryName(nonce), l.total(), l.arenaOffset(0))
	if err != nil {
		return nil, 0, err
	}
	if m, err = mapMemory(l, fd); err != nil {
		return nil, 0, errors.Join(err, memfd.Close(fd))
	}
	copy(m.nonce(0), nonce)
	return m, fd, nil
}

// joinMemory maps memory that the peer has made, and leaves own as the sign that this was done.
func joinMemory(l layout, fd int, nonce, own []byte) (*memory, error) {
	m, err := mapMemory(l, fd)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(m.nonce(0), nonce) {
		return nil, errors.Join(errors.New("peer's memory has another nonce"), m.unmap())
	}
	copy(m.nonce(1), own)
	return m, nil
}

func mapMemory(l layout, fd int) (*memory, error) {
	b, err := memfd.Map(fd, l.total())
	if err != nil {
		return nil, err
	}
	memfd.Populate(b[:l.arenaOffset(0)])
	return view(l, b), nil
}

func (m *memory) unmap() error { return memfd.Unmap(m.bytes) }
