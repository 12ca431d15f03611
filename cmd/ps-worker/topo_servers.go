package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/wire"
)

// serverRoads measures between this process and every server, by every transport that needs no device.
func serverRoads(c *cli.Context, tell func(road)) error {
	if len(c.StringSlice("servers")) == 0 {
		return nil
	}
	for _, transport := range []backend.Transport{backend.SHM, backend.TCP} {
		err := withBulk(c, transport, func(ctx context.Context, client *link.Client) {
			for _, addr := range c.StringSlice("servers") {
				tell(serverRoad(ctx, client, addr, string(transport)))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withBulk calls f with a running client whose pairs go by one transport and no other.
func withBulk(c *cli.Context, transport backend.Transport, f func(context.Context, *link.Client)) error {
	network, err := program.Network(c, c.String("cluster"), nil)
	if err != nil {
		return err
	}
	bulk, err := backend.NewBulk(backend.Config{Transport: transport, NoFallback: true})
	if err != nil {
		return err
	}
	client, err := link.NewClient(link.Config{Network: network, Pair: bulk.Pair, Cluster: c.String("cluster"), ID: "topo"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	f(ctx, client)
	cancel()
	return <-ended
}

// topoPatience bounds all calls to one server by one transport.
const topoPatience = 5 * time.Second

// serverRoad measures one server. What fails is a property of the road.
func serverRoad(ctx context.Context, client *link.Client, addr, transport string) road {
	ctx, cancel := context.WithTimeout(ctx, topoPatience)
	defer cancel()
	out := road{From: "worker", To: addr, Transport: transport}
	head, err := wire.Control(wire.KindIdentify, struct{}{})
	if err == nil {
		err = errors.Join(
			measureCalls(ctx, client, addr, head, nil, 200, func(s float64) { out.Micros = s * 1e6 }),
			measureCalls(ctx, client, addr, head, make([]byte, smallBody), 32, func(s float64) { out.Small = smallBody / s / 1e9 }),
			measureCalls(ctx, client, addr, head, make([]byte, largeBody), 8, func(s float64) { out.Large = largeBody / s / 1e9 }),
		)
	}
	if err != nil {
		out = road{From: out.From, To: out.To, Transport: out.Transport}
		out.Why, _, _ = strings.Cut(err.Error(), "\n")
	}
	return out
}

// measureCalls reports the median seconds of n calls with this body, after one that makes the connections. A server takes the body and
// answers who it is.
func measureCalls(ctx context.Context, client *link.Client, addr string, head, body []byte, n int, report func(seconds float64)) error {
	call := link.Call{Head: head}
	if body != nil {
		call.Body = [][]byte{body}
	}
	var took []time.Duration
	for i := range n + 1 {
		start := time.Now()
		reply, err := client.Call(ctx, addr, call)
		if err != nil {
			return err
		}
		answer, err := wire.DecodeAnswer(reply.Head)
		if err == nil && answer.Status != wire.OK {
			err = fmt.Errorf("%s refuses: %s", addr, answer.Detail)
		}
		if err != nil {
			return err
		}
		if i > 0 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	report(took[len(took)/2].Seconds())
	return nil
}
