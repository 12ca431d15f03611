package region

import (
	"bytes"
	"encoding/hex"
	"os"

	"hcclps/p2p/shm/memfd"
)

func memoryName(nonce []byte) string { return "hcclps-region-" + hex.EncodeToString(nonce) }

// create makes the memory. Only the control words are backed at once.
func create(l layout, nonce []byte) (fd int, err error) {
	return memfd.Create(memoryName(nonce), l.total(), l.control())
}

// attach maps memory that was found or made.
func attach(l layout, fd int) (*mapping, error) {
	b, err := memfd.Map(fd, l.total())
	if err != nil {
		return nil, err
	}
	return view(l, b), nil
}

// claim leaves the nonce of a rank as the sign that it has mapped the memory, and its process id.
func (m *mapping) claim(rank int, nonce []byte) {
	copy(m.ranks[rank].nonce, nonce)
	m.ranks[rank].pid.Store(uint32(os.Getpid()))
}

func (m *mapping) claimed(rank int, nonce []byte) bool {
	return bytes.Equal(m.ranks[rank].nonce, nonce)
}

func (m *mapping) unmap() error { return memfd.Unmap(m.bytes) }
