package program

import (
	"context"
	"sync"

	"hcclps/p2p/link"
	"hcclps/ps/wire"
	"hcclps/worker"
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
			s, err := worker.ServerStatus(ctx, client, addr, waiting)
			if err != nil {
				views[i].Err = err.Error()
				return
			}
			views[i].Status = &s
		})
	}
	wg.Wait()
	return views
}
