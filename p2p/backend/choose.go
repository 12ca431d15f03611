package backend

import (
	"fmt"
	"math/bits"
	"strings"

	"hcclps/p2p/link"
)

// Transport says what carries the bulk of pairs.
type Transport string

// The transports. A named one is what a process wants; what a pair gets depends on both ends.
const (
	Auto    Transport = "auto"         // shared memory on one host; HCCL between devices of two hosts; else TCP
	Measure Transport = "auto=measure" // whichever is fastest, which is found out when a pair is made
	TCP     Transport = "tcp"          // striped stream connections
	SHM     Transport = "shm"          // shared memory of one host
	HCCL    Transport = "hccl"         // HcclSend and HcclRecv between two devices; TCP until a pair is warm, and from the moment it is suspect
)

// Transports are the names a flag takes.
func Transports() []string {
	return []string{string(Auto), string(Measure), string(TCP), string(SHM), string(HCCL)}
}

// automatic says whether none is wanted by name.
func (t Transport) automatic() bool { return t == Auto || t == Measure }

// ways is a set of transports that a side would take for a pair.
type ways uint8

const (
	viaTCP ways = 1 << iota
	viaSHM
	viaHCCL
)

// byBit are the transports by the number of their bit in ways.
func byBit() [3]Transport { return [3]Transport{TCP, SHM, HCCL} }

func (w ways) String() string {
	var names []string
	for i, t := range byBit() {
		if w&(1<<i) != 0 {
			names = append(names, string(t))
		}
	}
	return strings.Join(names, ", ")
}

// index is the number of the bit of one way.
func (w ways) index() int { return bits.TrailingZeros8(uint8(w)) }

// transport is the name of one way.
func (w ways) transport() Transport { return byBit()[w.index()] }

// offer is what one side of a pair would take.
type offer struct {
	takes    ways
	named    bool   // it wants what it takes best by name: HCCL also on one host
	measures bool   // it wants what is fastest
	machine  uint64 // the same on one running kernel only; 0: unknown
}

// offer is this process's, the same for all pairs.
func (c Config) offer(machine uint64) offer {
	o := offer{machine: machine, named: !c.Transport.automatic(), measures: c.Transport == Measure}
	switch c.Transport {
	case TCP:
		o.takes = viaTCP
	case SHM:
		o.takes = viaSHM
	case HCCL:
		return offer{takes: viaTCP | viaHCCL, named: true, machine: machine} // HCCL is never the only road
	case Auto, Measure:
		o.takes = viaTCP | viaSHM
	}
	if device, err := c.device(); err == nil && device != noDevice && c.Transport.automatic() {
		o.takes |= viaHCCL
	}
	if !c.NoFallback {
		o.takes |= viaTCP
	}
	return o
}

// first is what carries a pair at once: shared memory is still to be tried, and gives way to TCP where fallback is.
func first(a, b offer) (try ways, fallback bool, err error) {
	both := a.takes & b.takes
	switch {
	case both&viaSHM != 0:
		return viaSHM, both&viaTCP != 0, nil
	case both&viaTCP != 0:
		return viaTCP, false, nil
	}
	return 0, false, fmt.Errorf("%w: this side takes %v, the other %v; change --transport or drop --no-fallback", link.ErrUnusable, a.takes, b.takes)
}

// measured says which of what a pair takes is to be timed, more than one way, or none.
func measured(a, b offer) ways {
	all := a.takes & b.takes
	if apart(a, b) {
		all &^= viaSHM
	}
	if !a.measures && !b.measures || a.named || b.named || bits.OnesCount8(uint8(all)) < 2 {
		return 0
	}
	return all
}

// better says whether HCCL is worth making for a pair: where it is measured, it may be.
func better(a, b offer) bool {
	oneHost := a.machine != 0 && a.machine == b.machine
	named := a.named && a.takes&viaHCCL != 0 || b.named && b.takes&viaHCCL != 0
	return a.takes&b.takes&viaHCCL != 0 && (named || !oneHost || measured(a, b) != 0)
}

// apart says whether the two are on two hosts for sure.
func apart(a, b offer) bool { return a.machine != 0 && b.machine != 0 && a.machine != b.machine }
