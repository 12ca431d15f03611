package cold_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"hcclps/ps/cold"
	"hcclps/ps/table"
)

func Example() {
	dir, err := os.MkdirTemp("", "cold")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	memory := table.NewMemory(6 << 20)
	store, err := cold.Open(cold.Config{Dir: filepath.Join(dir, "cold"), Memory: memory})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	rows, err := table.New(table.Spec{Dim: 64, Memory: memory, Cold: store.Table})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()

	var lock sync.RWMutex
	keys, grads := make([]uint64, 50_000), make([]float32, 50_000*64)
	for i := range keys {
		keys[i] = uint64(i)
	}
	for at := 0; at < len(keys); at += 1000 {
		if err := rows.Apply(keys[at:at+1000], grads[:1000*64], table.Stamp{}, scale{}); err != nil {
			fmt.Println(err)
			return
		}
		if err := rows.Cool(context.Background(), &lock); err != nil {
			fmt.Println(err)
			return
		}
	}
	s := rows.Stats()
	fmt.Println(s.Rows, "rows, most of them cold:", s.Cold.Rows > s.Rows/2)
	// Output: 50000 rows, most of them cold: true
}
