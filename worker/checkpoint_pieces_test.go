package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps"
	"hcclps/worker"
)

// large is a job of one worker whose codec holds back more than a server takes at once.
type large struct {
	servers *ps.Local
	keys    []uint64
	c       *worker.Client
	tables  [2]worker.Embedding
}

const largeDim = 32

func (l *large) connect(t *testing.T) {
	t.Helper()
	var err error
	l.c, err = worker.Connect(t.Context(), worker.Config{
		Job: "large", Worker: "w-0", Servers: l.servers.Addrs(), Cluster: l.servers.Cluster(), Network: l.servers.Network(), Compress: worker.Compression{All: "onebit"}, Parts: 32,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"one", "two"} {
		if l.tables[i], err = l.c.Embedding(t.Context(), name, worker.EmbeddingSpec{Dim: largeDim}); err != nil {
			t.Fatal(err)
		}
	}
}

// push is a step, with gradients that are a function of its number.
func (l *large) push(t *testing.T) {
	t.Helper()
	values := make([]float32, len(l.keys)*largeDim)
	for i := range values {
		values[i] = float32((uint64(i)*2654435761+l.c.Clock()*7)%1000)/1000 - 0.5
	}
	one, two := worker.Gradient{Table: l.tables[0], Keys: l.keys, Values: values}, worker.Gradient{Table: l.tables[1], Keys: l.keys, Values: values}
	if err := l.c.Push(t.Context(), 1, nil, one, two); err != nil {
		t.Fatal(err)
	}
}

// rows are the weights of some rows, at a step.
func (l *large) rows(t *testing.T, step uint64) []float32 {
	t.Helper()
	for l.c.Clock() < step {
		l.push(t)
	}
	r := worker.Read{Table: l.tables[1], Keys: l.keys[len(l.keys)-500:], Out: make([]float32, 500*largeDim)}
	if err := l.c.Pull(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r.Out
}

// What a worker's codec has held back goes to a checkpoint in pieces, and comes back. PROOF=full takes 440 MiB.
func TestLargeStateInPieces(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "c")
	l := &large{servers: keeping(t, dir, 0), keys: make([]uint64, 40_000)}
	if os.Getenv("PROOF") == "full" {
		l.keys = make([]uint64, 1_700_000)
	}
	for i := range l.keys {
		l.keys[i] = uint64(i)
	}
	l.connect(t)
	l.push(t)
	at, err := l.c.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.rows(t, at+1)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for l.c.Stats().Checkpoint.Made == 0 {
		if s := l.c.Stats().Checkpoint; s.Failed > 0 {
			t.Fatalf("checkpoint: %s", s.Why)
		}
		<-tick.C
	}
	want := l.rows(t, at+3)
	if err := l.c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pieces(t, dir); n < 2 {
		t.Errorf("the state is in %d pieces", n)
	}
	l.servers = keeping(t, dir, 1)
	l.connect(t)
	defer l.c.Close(context.WithoutCancel(t.Context()))
	if l.c.Clock() != at {
		t.Fatalf("restored at step %d, want %d", l.c.Clock(), at)
	}
	if got := l.rows(t, at+3); !slices.Equal(got, want) {
		t.Error("other rows than without a break")
	}
}

// pieces is how many there are of what workers have uploaded.
func pieces(t *testing.T, dir string) (n int) {
	t.Helper()
	s, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Newest(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Load(t.Context(), m.ID)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := c.Blobs(t.Context())
	for _, b := range blobs {
		if len(b.Name) > 6 && b.Name[:6] == "worker" {
			n++
		}
	}
	c.Close()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}
