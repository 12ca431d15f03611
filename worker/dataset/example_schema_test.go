package dataset_test

import (
	"fmt"
	"os"
	"path/filepath"

	"hcclps/worker/dataset"
)

// A features file says what the columns of a click log are.
func ExampleParseSchema() {
	schema, err := dataset.ParseSchema("features.yaml", []byte(`
features:
  - {name: click, kind: label}
  - {name: user, kind: id}
  - {name: tags, kind: ids, separator: "|", max: 8}
  - {name: age, kind: numeric, transform: edges, edges: [18, 30, 60]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "dataset-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "clicks.csv")
	if err := os.WriteFile(path, []byte("user,age,tags,click\n7,35,3|5,1\n9,,4,0\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	r, err := dataset.Open(dataset.Config{Format: "csv", Paths: []string{path}, Schema: schema, InOrder: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = r.Close() }()
	var b dataset.Batch
	if _, err := r.Next(&b); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("click", b.Label)
	for _, f := range b.Features {
		fmt.Println(f.Name, f.Offsets, f.Keys)
	}
	// Output:
	// click [1 0]
	// user [0 1 2] [7 9]
	// tags [0 2 3] [3 5 4]
	// age [0 1 2] [2 4]
}
