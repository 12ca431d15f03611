package region_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/shm/region"
)

func local(tb testing.TB, n int) []*region.Region {
	tb.Helper()
	all, err := region.Local(n, region.Config{Memory: 1 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, r := range all {
			if err := r.Close(); err != nil {
				tb.Error(err)
			}
		}
	})
	return all
}

// What was written before a word was posted is seen by who has seen the word.
func TestPostAndAwait(t *testing.T) {
	const ranks, turns = 4, 2000
	all := local(t, ranks)
	var wg sync.WaitGroup
	for r, me := range all {
		b, err := me.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := uint64(1); i <= turns; i++ {
				b[1000+i%8] = byte(i)
				me.Post(3, i)
				for other := range ranks {
					if err := me.Await(t.Context(), other, 3, i); err != nil {
						t.Error(err)
						return
					}
					if got := me.Memory(other)[1000+i%8]; got != byte(i) {
						t.Errorf("rank %d sees %d of rank %d in turn %d", r, got, other, i)
						return
					}
				}
				me.Post(4, i) // nobody is so far ahead as to write again what others read
				for other := range ranks {
					if err := me.Await(t.Context(), other, 4, max(i, 6)-6); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestLookDoesNotWaitForever(t *testing.T) {
	all := local(t, 2)
	if v := all[0].Look(1, 0, 0); v != 0 {
		t.Errorf("a new word is %d", v)
	}
	if v := all[0].Look(1, 0, 5); v != 0 {
		t.Errorf("a word that nobody posts is %d", v)
	}
	all[1].Post(0, 7)
	if v := all[0].Look(1, 0, 5); v != 7 {
		t.Errorf("word is %d, want 7", v)
	}
}

func TestAwaitEnds(t *testing.T) {
	all := local(t, 3)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	asleep := make(chan error, 1)
	go func() { asleep <- all[0].Await(ctx, 1, 0, 1) }()
	cancel(reason)
	if err := <-asleep; !errors.Is(err, reason) {
		t.Errorf("await whose context ends: %v", err)
	}
	go func() { asleep <- all[0].Await(t.Context(), 1, 0, 1) }()
	all[1].Leave()
	if err := <-asleep; !errors.Is(err, p2p.ErrPeer) {
		t.Errorf("await of a rank that leaves: %v", err)
	}
	all[2].Post(0, 1)
	all[2].Leave()
	if err := all[0].Await(t.Context(), 2, 0, 1); err != nil {
		t.Errorf("await of what was posted before its rank left: %v", err)
	}
	if err := all[0].Await(t.Context(), 2, 0, 2); !errors.Is(err, p2p.ErrPeer) {
		t.Errorf("await of what was not: %v", err)
	}
}

// A sleeper is woken by a post, long before it would look again.
func TestPostWakesSleepers(t *testing.T) {
	all := local(t, 2)
	for i := uint64(1); i <= 20; i++ {
		woken := make(chan error, 1)
		go func() { woken <- all[0].Await(t.Context(), 1, 0, i) }()
		deadline, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		<-deadline.Done() // by then it sleeps, if the machine is not busy
		cancel()
		all[1].Post(0, i)
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
	}
}

func TestAlloc(t *testing.T) {
	all := local(t, 2)
	var got [][]byte
	total := 0
	for _, n := range []int{1, 0, 4095, 4096, 100_000} {
		b, err := all[1].Alloc(n)
		if err != nil || len(b) != n || cap(b) != n {
			t.Fatalf("%d bytes, room for %d, %v", len(b), cap(b), err)
		}
		at, ok := all[1].Offset(b)
		if ok != (n > 0) || ok && (at%64 != 0 || at != total) {
			t.Errorf("%d bytes lie at %d, %v, want %d", n, at, ok, total)
		}
		if !bytes.Equal(b, make([]byte, n)) {
			t.Error("memory is not zero")
		}
		total += (n + 63) &^ 63
		got = append(got, b)
	}
	for i, b := range got {
		for j := range b {
			b[j] = byte(i + 1)
		}
	}
	if b := all[0].Memory(1)[:total]; b[0] != 1 || b[64] != 3 || b[total-1] != 0 || b[total-64] != 5 {
		t.Error("another rank does not see what was written")
	}
	if _, ok := all[0].Offset(got[4]); ok {
		t.Error("memory of another rank's mapping is taken for its own")
	}
	if _, ok := all[1].Offset(make([]byte, 100)); ok {
		t.Error("the heap is taken for shared memory")
	}
	if inner, ok := all[1].Offset(got[4][10:20]); !ok || inner != 64+4096+4096+10 {
		t.Errorf("a part lies at %d, %v", inner, ok)
	}
	for _, n := range []int{-1, 1 << 20, 1 << 40} {
		if _, err := all[1].Alloc(n); !errors.Is(err, region.ErrFull) {
			t.Errorf("allocate %d bytes: %v", n, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		ranks  int
		config region.Config
	}{{0, region.Config{}}, {257, region.Config{}}, {2, region.Config{Memory: -1}}, {2, region.Config{Memory: 1 << 50}}, {2, region.Config{Timeout: -1}}} {
		if all, err := region.Local(c.ranks, c.config); err == nil {
			t.Errorf("%d ranks, %+v: %v", c.ranks, c.config, all)
		}
	}
}

// files counts what this process has open.
func files(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

func TestNothingStaysOpen(t *testing.T) {
	before := files(t)
	for range 10 {
		all, err := region.Local(5, region.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if err := errors.Join(r.Close(), r.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	if after := files(t); after > before { // what other tests forgot may be gone
		t.Errorf("%d files are open, %d were", after, before)
	}
}
