package table_test

import (
	"fmt"
	"log"

	"hcclps/ps/table"
)

// descent subtracts the gradient from the weights.
type descent struct{}

func (descent) Update(row, grad []float32) {
	for i, g := range grad {
		row[i] -= g
	}
}

// Apply creates the rows it names; Gather computes those that are missing and
// creates none.
func Example() {
	t, err := table.New(table.Spec{Dim: 2, Init: table.Init{Kind: "constant", A: 1}})
	if err != nil {
		log.Fatal(err)
	}
	err = t.Apply([]uint64{3, 1 << 40}, []float32{0.5, 0, 0, 0.25}, table.Stamp{Step: 1}, descent{})
	if err != nil {
		log.Fatal(err)
	}
	out := make([]float32, 3*2)
	t.Gather([]uint64{1 << 40, 7, 3}, out)
	fmt.Println(out, "of", t.Stats().Rows, "rows")
	if err := t.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: [1 0.75 1 1 0.5 1] of 2 rows
}
