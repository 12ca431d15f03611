package raftlog

import (
	"errors"
	"os"
	"testing"
)

// A lost log is refused, and opened empty by the planted fault.
func TestAmnesiacForgets(t *testing.T) {
	n := newNode(t)
	cfg := n.log.cfg
	n.put(1, 10, 1, 100)
	n.close()
	if err := os.RemoveAll(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(n.storeDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, store.Close)
	cfg.Store = store
	if _, err := Open(cfg); !errors.Is(err, ErrLost) {
		t.Fatalf("open: %v, want %v", err, ErrLost)
	}
	l, err := OpenAmnesiac(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, l.Close)
	if last, err := l.LastIndex(); err != nil || last != 0 {
		t.Fatalf("last index %d, %v; want an empty log", last, err)
	}
}

func closing(t *testing.T, end func() error) {
	t.Helper()
	if err := end(); err != nil {
		t.Error(err)
	}
}
