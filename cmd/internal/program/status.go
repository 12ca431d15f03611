package program

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"hcclps/p2p/link"
	"hcclps/ps/wire"
)

// ServerView is what one server answered, or why it did not.
type ServerView struct {
	Addr   string             `json:"addr"`
	Status *wire.ServerStatus `json:"status,omitempty"`
	Err    string             `json:"error,omitempty"`
}

// Statuses asks every server what it sees, all at once.
func Statuses(ctx context.Context, client *link.Client, addrs []string, waiting bool) []ServerView {
	views := make([]ServerView, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() {
			views[i].Addr = addr
			s, err := status(ctx, client, addr, waiting)
			if err != nil {
				views[i].Err = err.Error()
				return
			}
			views[i].Status = s
		})
	}
	wg.Wait()
	return views
}

func status(ctx context.Context, client *link.Client, addr string, waiting bool) (*wire.ServerStatus, error) {
	head, err := wire.Control(wire.KindStatus, wire.StatusRequest{Waiting: waiting})
	if err != nil {
		return nil, err
	}
	reply, err := client.Call(ctx, addr, link.Call{Head: head})
	if err != nil {
		return nil, err
	}
	a, err := wire.DecodeAnswer(reply.Head)
	if err != nil {
		return nil, err
	}
	if a.Status != wire.OK {
		return nil, fmt.Errorf("%s: %s", a.Status, a.Detail)
	}
	var s wire.ServerStatus
	if err := json.Unmarshal(reply.Body, &s); err != nil {
		return nil, fmt.Errorf("read status of %s: %w", addr, err)
	}
	return &s, nil
}
