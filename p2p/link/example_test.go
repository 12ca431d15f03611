package link_test

import (
	"context"
	"fmt"
	"net"
	"sync"

	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/p2p/tcp"
)

func Example() {
	network := inproc.NewNetwork()
	pair := func(_ context.Context, conns []net.Conn, rank int) (link.Comm, error) {
		return tcp.Pair(conns, rank), nil
	}
	self := link.Identity{Cluster: "demo", ID: "s1"}
	server, err := link.NewServer(link.ServerConfig{
		Pair: pair,
		Handler: link.HandlerFunc(func(ctx context.Context, r *link.Request) {
			if body, err := r.Body(ctx); err == nil {
				_ = r.Reply(fmt.Appendf(nil, "%s of %d bytes from %s", r.Head, len(body), r.Peer.From))
			}
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := link.NewClient(link.Config{Network: network, Pair: pair, Cluster: "demo", ID: "w1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := network.Listen(ctx, "host:1")
	if err != nil {
		fmt.Println(err)
	}
	gate := link.Gate{Identity: self, Handle: server.Accept}
	var all sync.WaitGroup
	all.Go(func() { _ = gate.Serve(ctx, ln) })
	all.Go(func() { _ = server.Run(ctx) })
	all.Go(func() { _ = client.Run(ctx) })

	reply, err := client.Call(ctx, "host:1", link.Call{Head: []byte("push"), Body: [][]byte{make([]byte, 1<<20)}, Priority: link.Push})
	fmt.Println(string(reply.Head), err)
	cancel()
	all.Wait()
	// Output: push of 1048576 bytes from w1 <nil>
}
