package worker

import (
	"context"
	"fmt"

	"hcclps/p2p/collective"
)

// measure finds out how fast the links between the workers are, over a Comm of its own, and which workers are behind links so slow that they are to be
// spared. The order of ranks stays, since sums may have to follow it. Without Config.Measure it is nil.
func (p *peers) measure(ctx context.Context) (links *collective.Calibration, apart []int, err error) {
	if !p.cfg.Measure {
		return nil, nil, nil
	}
	comm, err := p.world.Comm(ctx, "links", nil)
	if err == nil {
		links, err = collective.Calibrate(ctx, comm)
		_ = comm.Close() // which is over
	}
	if err != nil {
		return nil, nil, fmt.Errorf("measure the links between workers: %w", err)
	}
	plan := collective.Plan(links)
	for _, i := range plan.Apart {
		apart = append(apart, plan.Order[i])
	}
	inside, across := links.Links(p.world.Hosts())
	p.log.Info("links measured", "inside_latency", inside.Alpha, "inside_bandwidth", inside.Bandwidth, "across_latency", across.Alpha, "across_bandwidth", across.Bandwidth, "apart", apart)
	return links, apart, nil
}
