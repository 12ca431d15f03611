package backend

import (
	"fmt"
	"strings"

	"hcclps/p2p/link"
)

// Transport says what carries the bulk of pairs.
type Transport string

// The transports. A named one is what a process wants; what a pair gets depends on both ends.
const (
	Auto Transport = "auto" // shared memory on one host; HCCL between devices of two hosts; else TCP
	TCP  Transport = "tcp"  // striped stream connections
	SHM  Transport = "shm"  // shared memory of one host
	HCCL Transport = "hccl" // HcclSend and HcclRecv between two devices; TCP until a pair is warm, and from the moment it is suspect
)

// Transports are the names a flag takes.
func Transports() []string { return []string{string(Auto), string(TCP), string(SHM), string(HCCL)} }

// ways is a set of transports that a side would take for a pair.
type ways uint8

const (
	viaTCP ways = 1 << iota
	viaSHM
	viaHCCL
)

func (w ways) String() string {
	var names []string
	for i, t := range []Transport{TCP, SHM, HCCL} {
		if w&(1<<i) != 0 {
			names = append(names, string(t))
		}
	}
	return strings.Join(names, ", ")
}

// offer is what one side of a pair would take.
type offer struct {
	takes   ways
	named   bool   // it wants what it takes best by name: HCCL also on one host
	machine uint64 // the same on one running kernel only; 0: unknown
}

// offer is this process's, the same for all pairs.
func (c Config) offer(machine uint64) offer {
	o := offer{machine: machine, named: c.Transport != Auto}
	switch c.Transport {
	case TCP:
		o.takes = viaTCP
	case SHM:
		o.takes = viaSHM
	case HCCL:
		return offer{takes: viaTCP | viaHCCL, named: true, machine: machine} // HCCL is never the only road
	case Auto:
		o.takes = viaTCP | viaSHM
	}
	if device, err := c.device(); err == nil && device != noDevice && c.Transport == Auto {
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

// better says whether HCCL is worth making for a pair.
func better(a, b offer) bool {
	oneHost := a.machine != 0 && a.machine == b.machine
	named := a.named && a.takes&viaHCCL != 0 || b.named && b.takes&viaHCCL != 0
	return a.takes&b.takes&viaHCCL != 0 && (named || !oneHost)
}
