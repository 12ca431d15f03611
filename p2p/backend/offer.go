package backend

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"hcclps/p2p"
)

// Offers are exchanged first on a pair's first connection:
//
//	0 4 "hcbk" | 4 1 version | 5 1 transports taken (1 tcp, 2 shm, 4 hccl) | 6 1 wishes (1 by name, 2 the fastest) | 7 1 zero | 8 8 machine
const (
	offerMagic   = "hcbk"
	offerVersion = 2
	offerSize    = 16
	byName       = 1
	theFastest   = 2
	offerTimeout = 3 * time.Second
)

func (o offer) encode() []byte {
	b := append(make([]byte, 0, offerSize), offerMagic...)
	wishes := byte(0)
	if o.named {
		wishes |= byName
	}
	if o.measures {
		wishes |= theFastest
	}
	b = append(b, offerVersion, byte(o.takes), wishes, 0)
	return binary.LittleEndian.AppendUint64(b, o.machine)
}

func decodeOffer(b []byte) (offer, error) {
	switch {
	case len(b) != offerSize || string(b[:4]) != offerMagic:
		return offer{}, fmt.Errorf("read offer of transports: %w: %x", p2p.ErrMalformed, b)
	case b[4] != offerVersion:
		return offer{}, fmt.Errorf("read offer of transports: version %d, this side speaks %d: run one version of the programs", b[4], offerVersion)
	case b[5] == 0 || b[5] > byte(viaTCP|viaSHM|viaHCCL) || b[6] > byName|theFastest || b[7] != 0:
		return offer{}, fmt.Errorf("read offer of transports: %w: %x", p2p.ErrMalformed, b)
	}
	return offer{
		takes: ways(b[5]), named: b[6]&byName != 0, measures: b[6]&theFastest != 0, machine: binary.LittleEndian.Uint64(b[8:]),
	}, nil
}

// exchange tells the other side ours and reads its own.
func exchange(ctx context.Context, conn net.Conn, ours offer) (offer, error) {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	release := p2p.Bound(ctx, conn)
	var b [offerSize]byte
	_, err := conn.Write(ours.encode())
	if err == nil {
		_, err = io.ReadFull(conn, b[:])
	}
	if ended := release(); ended != nil {
		return offer{}, fmt.Errorf("exchange offers of transports with %s: %w", conn.RemoteAddr(), ended)
	}
	if err != nil {
		return offer{}, fmt.Errorf("exchange offers of transports with %s: %w: %w", conn.RemoteAddr(), p2p.ErrPeer, err)
	}
	return decodeOffer(b[:])
}
