package tcp

import (
	"net"

	"hcclps/p2p"
)

var _ p2p.Gatherer = (*Comm)(nil)

// Gathers implements p2p.Gatherer: sockets write from many places in one system call.
func (c *Comm) Gathers() bool {
	for _, conn := range c.conns {
		if !gathers(conn) {
			return false
		}
	}
	return true
}

// gathers says whether conn is a socket. TLS would make a record of each place.
func gathers(conn net.Conn) bool {
	switch conn.(type) {
	case encrypted:
		return false
	case local, tcpSocket:
		return true
	default:
		return false
	}
}

// IsendGathered implements p2p.Gatherer.
func (c *Comm) IsendGathered(peer int, places [][]byte) *p2p.Request {
	return c.post(peer, p2p.Bytes(nil), func(done p2p.Completion) {
		c.sends.push(sending{load: loadOfMany(places), done: done})
		c.match()
	})
}
