package trace_test

import (
	"bytes"
	"fmt"
	"log"

	"hcclps/internal/trace"
)

// Record two spans, one inside the other, write them as a file, read it and add up.
func Example() {
	rec := trace.New(trace.Config{Process: "demo"})
	rec.Start()
	track := rec.Track("work", "main")

	outer := track.Begin("outer")
	for range 3 {
		inner := track.Begin("inner")
		inner.Bytes = 1000
		inner.End()
	}
	outer.End()
	track.Mark("done")

	var file bytes.Buffer // or rec.Trace().WriteFile(path)
	if err := rec.Trace().Write(&file); err != nil {
		log.Fatal(err)
	}
	t, err := trace.Read(&file)
	if err != nil {
		log.Fatal(err)
	}
	if err := trace.Check(t, true); err != nil {
		log.Fatal(err)
	}
	counts := map[string]int{}
	for _, row := range t.Summarize().Rows {
		counts[row.Name] = row.Count
		if row.Bytes > 0 {
			fmt.Println(row.Name, row.Bytes, "bytes")
		}
	}
	fmt.Println(counts)
	// Output:
	// inner 3000 bytes
	// map[inner:3 outer:1]
}
