package tcp_test

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p"
	"hcclps/p2p/sockets"
	"hcclps/p2p/tcp"
)

// Two ranks over a socket; in earnest they are in two processes.
func ExamplePair() {
	ctx := context.Background()
	var network sockets.Network
	l, err := network.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	var g errgroup.Group
	g.Go(func() error { // rank 1 accepts and receives
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		got := make([]byte, 5)
		err = rank(ctx, conn, 1, func(c p2p.Comm) error { return p2p.Recv(ctx, c, 0, p2p.Bytes(got)) })
		fmt.Printf("rank 1 got %q\n", got)
		return err
	})
	g.Go(func() error { // rank 0 dials and sends
		conn, err := network.Dial(ctx, l.Addr().String())
		if err != nil {
			return err
		}
		return rank(ctx, conn, 0, func(c p2p.Comm) error { return p2p.Send(ctx, c, 1, p2p.Bytes([]byte("hello"))) })
	})
	if err := g.Wait(); err != nil {
		fmt.Println(err)
	}
	// Output: rank 1 got "hello"
}

// rank runs one side of a pair for as long as work takes.
func rank(ctx context.Context, conn net.Conn, number int, work func(p2p.Comm) error) error {
	c := tcp.Pair([]net.Conn{conn}, number)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	err := work(c)
	_ = c.Close()
	<-ended //nolint:errcheck // only that it ended matters: the last confirmation is on its way then; a process must not exit before
	return err
}
