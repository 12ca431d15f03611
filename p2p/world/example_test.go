package world_test

import (
	"context"
	"fmt"
	"sync"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/world"
)

func Example() {
	network := inproc.NewNetwork()
	rank := func(ctx context.Context, r int) error {
		w, err := world.Open(ctx, world.Config{
			Rank: r, Size: 2, Master: "master:1", Listen: []string{"", "other:0"}[r], Network: network, Pair: pair,
		})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		var run sync.WaitGroup
		defer run.Wait()
		defer stop()
		run.Go(func() { _ = w.Run(ctx) }) // what there is to say, the Comm says
		comm, err := w.Comm(ctx, "all", nil)
		if err != nil {
			return err
		}
		in := make([]byte, 5)
		recv, send := comm.Irecv(1-r, p2p.Bytes(in)), comm.Isend(1-r, p2p.Bytes(fmt.Appendf(nil, "I'm %d", r)))
		if err := send.Wait(ctx); err != nil {
			return err
		}
		if err := recv.Wait(ctx); err != nil {
			return err
		}
		if r == 0 {
			fmt.Printf("rank %d of %d heard %q\n", w.Rank(), w.Size(), in)
		}
		return nil
	}
	var all sync.WaitGroup
	for r := range 2 {
		all.Go(func() {
			if err := rank(context.Background(), r); err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	// Output: rank 0 of 2 heard "I'm 1"
}

// One of three processes fails; the others go on as two.
func ExampleWorld_Rebuild() {
	network := inproc.NewNetwork()
	rank := func(ctx context.Context, r int) error {
		w, err := world.Open(ctx, world.Config{
			Rank: r, Size: 3, Master: "master:1", Listen: []string{"", "one:0", "two:0"}[r], Host: "here", Network: network, Pair: pair,
		})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		var run sync.WaitGroup
		defer run.Wait()
		defer stop()
		run.Go(func() { _ = w.Run(ctx) })
		if w.Rank() == 1 {
			w.Fail("out of memory")
			return nil
		}
		<-w.Failed()
		if w, err = w.Rebuild(ctx); err != nil {
			return err
		}
		run.Go(func() { _ = w.Run(ctx) })
		comm, err := w.Comm(ctx, "all", nil)
		if err != nil {
			return err
		}
		token := p2p.Bytes(make([]byte, 1))
		if w.Rank() == 1 {
			return p2p.Send(ctx, comm, 0, token)
		}
		fmt.Printf("epoch %d has %d ranks\n", w.Epoch(), w.Size())
		return p2p.Recv(ctx, comm, 1, token)
	}
	var all sync.WaitGroup
	for r := range 3 {
		all.Go(func() {
			if err := rank(context.Background(), r); err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	// Output: epoch 2 has 2 ranks
}
