package inproc_test

import (
	"context"
	"fmt"

	"hcclps/p2p/inproc"
)

func ExampleNetwork() {
	ctx := context.Background()
	network := inproc.NewNetwork()
	l, err := network.Host("server").Listen(ctx, "server:7000")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	client, err := network.Host("client").Dial(ctx, "server:7000")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.RemoteAddr(), "reached", conn.LocalAddr())

	_, err = network.Dial(ctx, "nobody:7000")
	fmt.Println(err)
	// Output:
	// client reached server:7000
	// dial inproc nobody:7000: connection refused
}
