// Lr writes a seeded LIBSVM data set for logistic regression.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("dir", ".", "folder for the files")
	seed := flag.Uint64("seed", 1, "of the data")
	rows := flag.Int("rows", 50_000, "rows of the train file")
	testRows := flag.Int("test-rows", 10_000, "rows of the test file")
	flag.Parse()
	train, test, best, err := generate(*dir, *seed, *rows, *testRows)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s\n%s\nbest possible test AUC %.4f\n", train, test, best)
}
