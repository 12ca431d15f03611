package hcclps_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	module = "hcclps"
	golden = "testdata/imports.txt"
)

// arrows says what of ours a package may import: the first line whose first
// pattern matches it decides. `x` is x alone, `x/*` is x and all below it,
// `x/+` is what is below it. Test files are not looked at.
var arrows = []string{
	".",
	"internal/*",
	"internal/trace",
	"p2p internal/trace",
	"p2p/link p2p internal/trace",
	"p2p/collective p2p internal/vec internal/trace",
	"p2p/backend p2p/*",
	"p2p/p2ptest p2p p2p/inproc p2p/sockets",
	"p2p/shm/memfd",
	"p2p/shm p2p p2p/shm/memfd",
	"p2p/shm/region p2p p2p/shm/memfd",
	"p2p/tcp p2p internal/vec",
	"p2p/+ p2p p2p/hccl/+",
	"compress internal/vec",
	"checkpoint ps/layout compress",
	"ps/table internal/vec",
	"ps/optim internal/vec",
	"ps/layout internal/vec",
	"ps/wire internal/vec",
	"ps/pstest ps/* worker/* p2p/* checkpoint compress",
	"ps ps/+ compress checkpoint p2p p2p/link p2p/backend p2p/inproc internal/vec internal/trace",
	"ps/+ ps/+ compress checkpoint p2p p2p/link p2p/backend internal/vec internal/trace",
	"worker/dataset internal/vec",
	"worker/metric internal/vec",
	"worker/model worker worker/dataset worker/metric internal/vec",
	"worker worker/dataset worker/metric ps/wire ps/layout ps/optim ps/table ps/update compress checkpoint p2p p2p/link p2p/collective p2p/world p2p/backend internal/vec internal/trace",
	"cmd/* cmd/* worker/* ps/* checkpoint compress p2p/* internal/trace",
	"examples/* worker/* ps/* checkpoint compress p2p/* internal/trace",
}

// onlyTests are imported by no package of the product.
var onlyTests = []string{"p2p/p2ptest", "ps/pstest"}

var rewrite = flag.Bool("rewrite", false, "write testdata/imports.txt anew")

// TestImports fails when an import breaks the layers of the project, and when
// the import graph is not the one of testdata/imports.txt. After a wanted change
// run `go test -run TestImports -rewrite .` and have the difference reviewed.
func TestImports(t *testing.T) {
	var got bytes.Buffer
	for _, p := range packages(t) {
		rule := slices.IndexFunc(arrows, func(a string) bool { return match(strings.Fields(a)[0], p.name) })
		if rule < 0 {
			t.Errorf("%s: no line of arrows is about it", p.name)
			continue
		}
		for _, to := range p.imports {
			allowed := slices.ContainsFunc(strings.Fields(arrows[rule])[1:], func(a string) bool { return match(a, to) })
			if !allowed || slices.Contains(onlyTests, to) && !slices.Contains(onlyTests, p.name) {
				t.Errorf("%s must not import %s: it may import %q", p.name, to, arrows[rule])
			}
		}
		got.WriteString(strings.TrimSpace(p.name+" -> "+strings.Join(p.imports, " ")) + "\n")
	}
	if *rewrite {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the import graph is not that of %s (see -rewrite); it is now\n%s", golden, got.Bytes())
	}
}

// match reports whether a pattern of arrows covers a package.
func match(pattern, name string) bool {
	if below, ok := strings.CutSuffix(pattern, "/+"); ok {
		return strings.HasPrefix(name, below+"/")
	}
	dir, all := strings.CutSuffix(pattern, "/*")
	return name == dir || all && strings.HasPrefix(name, dir+"/")
}

// pkg is one of our packages and what of ours it imports, without the module.
type pkg struct {
	name    string
	imports []string
}

// packages asks the go command for the packages that make the product.
func packages(t *testing.T) []pkg {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		ours := pkg{name: short(p.ImportPath)}
		for _, to := range p.Imports {
			if to == module || strings.HasPrefix(to, module+"/") {
				ours.imports = append(ours.imports, short(to))
			}
		}
		all = append(all, ours)
	}
}

// short takes the module off an import path; the root is ".".
func short(importPath string) string {
	return path.Clean(strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"))
}
