package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"hcclps/p2p/link"
	"hcclps/worker"
)

// shut is a network whose servers admit nobody.
type shut struct {
	link.Network
	dialled int
}

func (s *shut) Dial(context.Context, string) (net.Conn, error) {
	s.dialled++
	return nil, fmt.Errorf("wrong token: %w", link.ErrRefused)
}

func TestRefusalAtTheDoorIsFinal(t *testing.T) {
	var network shut
	_, err := worker.Connect(t.Context(), worker.Config{Servers: []string{"s1:1", "s2:1"}, Cluster: "c", Network: &network})
	if !errors.Is(err, link.ErrRefused) || network.dialled != 1 {
		t.Errorf("%v after %d connections", err, network.dialled)
	}
}
