package optim_test

import (
	"fmt"
	"log"

	"hcclps/ps/optim"
)

func Example() {
	rule, err := optim.New(optim.Config{Name: "sgd", Params: map[string]float64{"lr": 0.5}})
	if err != nil {
		log.Fatal(err)
	}
	var state optim.State // of the table, replicated
	row := []float32{1, 2}
	for range 2 {
		rule.Advance(&state)
		rule.Step(&state, 1).Update(row, []float32{1, -1})
	}
	fmt.Println(row, "after", state.Steps, "steps")
	// Output: [0 3] after 2 steps
}

func ExampleNew() {
	_, err := optim.New(optim.Config{Name: "adagard"})
	fmt.Println(err)
	// Output: check optimizer: unknown name "adagard": nearest is "adagrad"
}
