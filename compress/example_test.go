package compress_test

import (
	"fmt"

	"hcclps/compress"
)

// A worker sends gradients as signs. What signs do not tell stays in the residual and comes later, so that the sums agree.
func Example() {
	codec, err := compress.Parse("onebit")
	if err != nil {
		fmt.Println(err)
		return
	}
	worker, err := compress.NewFeedback(codec, 2, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	sum := make([]float32, 4) // the server's
	for step := range uint64(100) {
		gradient := []float32{4, -3, 2, -1}
		frame, err := worker.AppendFrame(nil, gradient, step)
		if err != nil {
			fmt.Println(err)
			return
		}
		opened, _, err := compress.Open(frame)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := opened.Decode(sum, compress.Add); err != nil {
			fmt.Println(err)
			return
		}
	}
	for i, rest := range worker.Residual() {
		fmt.Printf("%.0f ", sum[i]+rest)
	}
	// Output: 400 -300 200 -100
}
