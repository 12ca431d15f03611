package program

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/urfave/cli/v2"
)

// Lines that goroutines of a command write at the same time stay whole.
func TestGoroutinesShareTheOutput(t *testing.T) {
	const writers, lines, line = 4, 200, "one of many lines\n"
	write := func(c *cli.Context) error {
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range lines {
					fmt.Fprint(c.App.Writer, line)
					fmt.Fprint(c.App.ErrWriter, line)
				}
			})
		}
		all.Wait()
		return nil
	}
	app := &cli.App{Name: "p", Commands: []*cli.Command{{Name: "write", Action: write}}}
	var out, errs bytes.Buffer
	if code := Run(t.Context(), app, []string{"p", "write"}, &out, &errs); code != 0 {
		t.Fatalf("exit %d", code)
	}
	for _, b := range []*bytes.Buffer{&out, &errs} {
		if b.String() != strings.Repeat(line, writers*lines) {
			t.Errorf("%d bytes are not %d whole lines", b.Len(), writers*lines)
		}
	}
}
