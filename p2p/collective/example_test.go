package collective_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// rank is what each of the ranks does: sum two gradients, which leave as they are ready, and rows of a table.
func rank(ctx context.Context, g *collective.Group) (collective.Sparse, error) {
	f, err := g.Fuse(collective.FusionConfig{DType: p2p.Float32, Reduction: collective.Avg})
	if err != nil {
		return collective.Sparse{}, err
	}
	f.Add(p2p.Bytes(make([]byte, 4000)))
	last := f.Add(p2p.Bytes(make([]byte, 400)))
	f.Flush()
	me := uint64(g.Rank())
	var rows collective.Sparse
	sum := g.SparseReduce(collective.Sparse{Dim: 1, Keys: []uint64{me, 7}, Rows: []float32{10, 1}}, &rows)
	err = errors.Join(last.Wait(ctx), sum.Wait(ctx))
	return rows, errors.Join(err, g.Barrier().Wait(ctx)) // nobody leaves before all have what they need
}

func ExampleGroup_SparseReduce() {
	ctx := context.Background()
	var all sync.WaitGroup
	for r, comm := range inproc.World(3) {
		all.Go(func() {
			g, err := collective.New(collective.Config{Comm: comm})
			if err != nil {
				fmt.Println(err)
				return
			}
			all.Go(func() { _ = g.Run(ctx) }) // until the group is closed; why it ended is in the operations' errors
			rows, err := rank(ctx, g)
			if r == 0 {
				fmt.Println(rows.Keys, rows.Rows, err)
			}
			_ = g.Close()
		})
	}
	all.Wait()
	// Output: [0 1 2 7] [10 10 10 3] <nil>
}
