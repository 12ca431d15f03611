package doctor

import "context"

// checkTransports sums up what moves bulk bytes here.
func checkTransports(_ context.Context, p *patient) []Finding {
	var out []Finding
	switch {
	case p.Transport == "hccl" && !p.hasDevice():
		out = append(out, found(Fail, "hccl needs a device of this process", "give --device N, or use --transport auto"))
	case p.cann.usable() && p.cann.simulator:
		out = append(out, good("hccl: by the simulator, between processes that own one of its devices"))
	case p.cann.usable() && len(p.npus) > 0:
		out = append(out, good("hccl: between processes that own a device (--device)"))
	case p.cann.usable():
		out = append(out, found(p.wanted(OK), "hccl: CANN is here, an NPU is not", ""))
	default:
		out = append(out, found(p.wanted(OK), "hccl: not here", ""))
	}
	if p.shm == nil {
		out = append(out, good("shm: between processes of this host"))
	} else {
		out = append(out, good("shm: not here"))
	}
	return append(out, good("tcp: to every host; Unix sockets on this one"))
}
