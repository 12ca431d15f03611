package dataset_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"hcclps/worker/dataset"
)

func Example() {
	dir, err := os.MkdirTemp("", "hcclps-example-")
	if err != nil {
		log.Fatal(err)
	}
	file := filepath.Join(dir, "rows.libsvm")
	if err := os.WriteFile(file, []byte("+1 3:0.5 7:1\n-1 7:2\n+1 3:1\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	r, err := dataset.Open(dataset.Config{Paths: []string{file}, Batch: 2, InOrder: true})
	if err != nil {
		log.Fatal(err)
	}
	var b dataset.Batch
	for {
		more, err := r.Next(&b)
		if err != nil {
			log.Fatal(err)
		}
		if !more {
			break // the end of the epoch; the next call begins another
		}
		fmt.Println(b.Rows, "rows, labels", b.Label)
	}
	if err := r.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 2 rows, labels [1 0]
	// 1 rows, labels [1]
}
