package pstest

import (
	"context"
	"testing"

	"hcclps/ps"
)

// Serve runs a cluster until the test ends, and returns when it is ready.
func Serve(t testing.TB, cfg ps.LocalConfig) *ps.Local {
	t.Helper()
	l, err := ps.NewLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("servers: %v", err)
		}
	})
	if err := l.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}
