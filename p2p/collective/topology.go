package collective

import "slices"

// Topology is where the members of a group are and what is between them, by rank of the Comm.
type Topology struct {
	Ranks     []int        // numbers in Config.Ranks
	Hosts     []int        // equal for ranks of one host; nil: nobody said
	Apart     []int        // ranks behind slow links
	Transport []string     // what carries bytes between this rank and each other, "" where nobody says
	Measured  *Calibration // latency and bandwidth of each pair; nil: nobody has measured
}

// Topology says how the group lies.
func (g *Group) Topology() Topology {
	t := Topology{
		Ranks: slices.Clone(g.cfg.Ranks), Hosts: slices.Clone(g.cfg.Hosts), Apart: slices.Clone(g.cfg.Apart),
		Transport: make([]string, g.Size()), Measured: g.cfg.Measured,
	}
	named, _ := g.cfg.Comm.(interface{ Transport(peer int) string })
	for r := range t.Transport {
		if named != nil {
			t.Transport[r] = named.Transport(r)
		}
	}
	return t
}
