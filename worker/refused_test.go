package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"hcclps/p2p/backend"
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

// The servers of a test take TCP alone. That is known when the first large body is to be moved, and is not tried again until the deadline.
func TestTransportThatCannotBeHadIsFinal(t *testing.T) {
	c := connect(t, cluster(t), worker.Config{Job: "j", Bulk: backend.Config{Transport: backend.SHM, NoFallback: true}, Deadline: time.Hour})
	defer c.Abandon()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const elements = 1 << 18
	dense, err := c.Dense(ctx, "d", []int{elements}, worker.DenseSpec{Optimizer: worker.Optimizer{Name: "sgd"}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Pull(ctx, worker.Read{Table: dense, Out: make([]float32, elements)})
	if !errors.Is(err, link.ErrUnusable) || ctx.Err() != nil {
		t.Error(err)
	}
}
