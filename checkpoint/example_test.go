package checkpoint_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"

	"hcclps/checkpoint"
	"hcclps/ps/layout"
)

func Example() {
	if err := saveAndLoad(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: step 100 key 42 weights 0.5 -1
}

func saveAndLoad(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "checkpoints-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // an example
	store, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "server-1"})
	if err != nil {
		return err
	}
	defer store.Close()

	// A page of one row: number of rows, key, step, sightings, writer, two weights.
	const key = 42
	data := binary.LittleEndian.AppendUint16(nil, 1)
	data = binary.LittleEndian.AppendUint64(data, key)
	data = append(data, make([]byte, 8)...)
	for _, w := range []float32{0.5, -1} {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(w))
	}
	tables := []checkpoint.Table{{ID: 1, Name: "user", Dim: 2}}
	w, err := store.Begin(ctx, checkpoint.Spec{ID: 1, Job: "clicks", Group: layout.GroupOf(0), Shards: 1, Tables: tables})
	if err != nil {
		return err
	}
	id := checkpoint.PageID{Table: 1, Partition: uint16(layout.Partition(key, 0))}
	if err := w.WritePage(ctx, checkpoint.Page{PageID: id, Data: data}); err != nil {
		return err
	}
	part, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	m := checkpoint.Manifest{ID: 1, Job: "clicks", Step: 100, Shards: 1, Tables: tables, Parts: []checkpoint.Part{part}}
	if _, err := store.Commit(ctx, m); err != nil {
		return err
	}

	c, err := store.Load(ctx, 1)
	if err != nil {
		return err
	}
	defer c.Close()
	for row, err := range c.Rows(ctx, checkpoint.Query{}) {
		if err != nil {
			return err
		}
		fmt.Println("step", c.Manifest().Step, "key", row.Key(), "weights", row.Weight(0), row.Weight(1))
	}
	return nil
}
