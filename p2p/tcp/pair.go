package tcp

import (
	"errors"
	"fmt"
	"net"

	"hcclps/p2p"
)

// Checksum says which payloads carry a CRC-32C. The headers of frames always have one.
type Checksum uint8

// The choices. Each side decides for what it sends; what carries a sum is verified.
const (
	// ChecksumAuto is on unless every connection is one on which a sum protects nothing. TCP's own 16 bits let about one damaged
	// segment in 65,536 pass, and network cards and middleboxes make them anew over what they damaged. TLS authenticates each
	// record, so nothing damaged reaches us; and a Unix socket is a copy within one memory, with no wire that could damage it.
	ChecksumAuto Checksum = iota
	ChecksumOn
	ChecksumOff
)

// Config are the choices of a pair. The zero value is good.
type Config struct {
	Checksum Checksum
}

// Pair is Config{}.Pair.
func Pair(conns []net.Conn, rank int) *Comm { return Config{}.Pair(conns, rank) }

// Pair makes rank 0 or 1 of a 2-rank Comm over one or more conns, the other ends of which must be given to the other rank in the
// same order. The Comm owns them from now on. It starts nothing: call Run, or Close if it is not to run.
func (cfg Config) Pair(conns []net.Conn, rank int) *Comm {
	c := &Comm{conns: conns, rank: rank, sums: cfg.Checksum == ChecksumOn}
	for _, conn := range conns {
		unpace(conn)
		c.wake = append(c.wake, make(chan struct{}, 1))
	}
	if cfg.Checksum == ChecksumAuto {
		for _, conn := range conns {
			c.sums = c.sums || !sound(conn)
		}
	}
	switch {
	case rank != 0 && rank != 1:
		c.cause = fmt.Errorf("make rank %d of a pair: %w", rank, p2p.ErrRank)
	case len(conns) == 0:
		c.cause = errors.New("make a pair over no connection")
	}
	return c
}
