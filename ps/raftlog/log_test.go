package raftlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/corrupt"
)

func TestEmpty(t *testing.T) {
	n := newNode(t)
	for range 2 {
		n.want(0, 0)
		if err := n.log.GetLog(1, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("got %v, want ErrLogNotFound", err)
		}
		if err := n.log.DeleteRange(1, 10); err != nil {
			t.Fatal(err)
		}
		if err := n.log.CheckSnapshot(0); err != nil {
			t.Fatal(err)
		}
		if !n.log.IsMonotonic() {
			t.Fatal("not monotonic")
		}
		n.reopen()
	}
}

func TestEntryKeepsItsFields(t *testing.T) {
	n := newNode(t)
	at := time.Unix(1700000000, 123456789)
	in := []*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("configuration")},
		{Index: 2, Term: 3, Type: raft.LogNoop, AppendedAt: at},
		{Index: 3, Term: 3, Type: raft.LogCommand, Data: payload(3, 3, 1000), AppendedAt: at},
	}
	if err := n.log.StoreLogs(in); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n.want(1, 3)
		for _, e := range in {
			var out raft.Log
			if err := n.log.GetLog(e.Index, &out); err != nil {
				t.Fatal(err)
			}
			if out.Index != e.Index || out.Term != e.Term || out.Type != e.Type || string(out.Data) != string(e.Data) || !out.AppendedAt.Equal(e.AppendedAt) {
				t.Fatalf("got %+v, want %+v", out, *e)
			}
			if sum, ok := n.log.Checksum(e); !ok || sum != crc32.Checksum(e.Data, castagnoli) {
				t.Fatalf("checksum %08x, %v", sum, ok)
			}
		}
		n.reopen()
	}
}

func TestTruncation(t *testing.T) {
	const size = 10_000 // about 100 entries a segment
	n := newNode(t)
	n.put(1, 300, 1, size)
	steps := []struct {
		name        string
		lo, hi      uint64
		first, last uint64
	}{
		{"nothing, below", 0, 0, 1, 300},
		{"nothing, above", 301, 400, 1, 300},
		{"prefix", 1, 10, 11, 300},
		{"prefix again, from below", 1, 150, 151, 300},
		{"suffix in the last segment", 299, 300, 151, 298},
		{"suffix, beyond the end", 290, 1000, 151, 289},
		{"suffix over a border of segments", 160, 289, 151, 159},
		{"prefix to one entry", 151, 158, 159, 159},
		{"all", 159, 159, 0, 0},
	}
	for _, s := range steps {
		if err := n.log.DeleteRange(s.lo, s.hi); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		n.want(s.first, s.last)
		for i := s.first; i <= s.last && i > 0; i++ {
			n.wantEntry(i, 1, size)
		}
		n.reopen()
		n.want(s.first, s.last)
	}
	n.put(1000, 1010, 5, size)
	n.want(1000, 1010)
	n.reopen()
	n.want(1000, 1010)
	if err := n.log.DeleteRange(1003, 1005); err == nil {
		t.Fatal("a hole was allowed")
	}
}

func TestSuffixIsWrittenAgain(t *testing.T) {
	n := newNode(t)
	n.put(1, 250, 1, 10_000)
	if err := n.log.putMark(); err != nil {
		t.Fatal(err)
	}
	if err := n.log.DeleteRange(50, 250); err != nil {
		t.Fatal(err)
	}
	n.put(50, 180, 2, 12_000)
	for range 2 {
		n.want(1, 180)
		n.wantEntry(49, 1, 10_000)
		n.wantEntry(50, 2, 12_000)
		n.wantEntry(180, 2, 12_000)
		n.crash()
		n.mustOpen()
	}
}

func TestOverwriteIsIdempotent(t *testing.T) {
	n := newNode(t)
	n.put(1, 20, 1, 500)
	used, _ := n.log.Bytes()
	n.put(5, 15, 1, 500)
	if now, _ := n.log.Bytes(); now != used {
		t.Fatalf("same entries took %d bytes", now-used)
	}
	n.want(1, 20)
	n.put(18, 22, 1, 500)
	n.want(1, 22)
	n.put(10, 12, 2, 500)
	n.want(1, 12)
	n.wantEntry(9, 1, 500)
	n.wantEntry(10, 2, 500)
	n.put(1, 3, 3, 500)
	n.want(1, 3)
	n.reopen()
	n.want(1, 3)
	n.wantEntry(1, 3, 500)
}

func TestCrashAfterEmptying(t *testing.T) {
	n := newNode(t)
	n.put(1, 50, 1, 1000)
	must(t, n.log.putMark())
	must(t, n.log.DeleteRange(1, 50))
	n.crash()
	n.mustOpen()
	n.want(0, 0)
	n.put(201, 210, 2, 1000)
	n.crash()
	n.mustOpen()
	n.want(201, 210)
}

func TestGapAfterSnapshotStartsAnew(t *testing.T) {
	n := newNode(t)
	n.put(1, 50, 1, 1000)
	if err := n.log.putMark(); err != nil {
		t.Fatal(err)
	}
	n.put(101, 110, 2, 1000)
	for range 2 {
		n.want(101, 110)
		n.wantEntry(101, 2, 1000)
		if err := n.log.CheckSnapshot(100); err != nil {
			t.Fatal(err)
		}
		if err := n.log.CheckSnapshot(99); !errors.Is(err, ErrLost) {
			t.Fatalf("got %v, want ErrLost", err)
		}
		n.crash()
		n.mustOpen()
	}
}

func TestRefusals(t *testing.T) {
	n := newNode(t)
	n.put(5, 6, 1, 10)
	limit := n.log.MaxEntry()
	for name, es := range map[string][]*raft.Log{
		"below":      {entry(4, 1, 10)},
		"zero":       {entry(0, 1, 10)},
		"jump":       {entry(7, 1, 10), entry(9, 1, 10)},
		"large":      {entry(7, 1, limit+1)},
		"extensions": {{Index: 7, Term: 1, Extensions: []byte("five.")}},
	} {
		if err := n.log.StoreLogs(es); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	n.want(5, 6)
	n.put(7, 7, 1, limit)
	n.wantEntry(7, 1, limit)
	if _, _, err := n.log.Alloc(limit + 1); err == nil || !strings.Contains(err.Error(), "eighth") {
		t.Errorf("alloc above the limit: %v", err)
	}
	if _, err := Open(n.cfg); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), n.cfg.Dir) {
		t.Errorf("second owner: %v", err)
	}
	for _, c := range []Config{{}, {Dir: "x", Store: n.store, Budget: 1}, {Dir: "x", Store: n.store, SegmentSize: 3 << 20}} {
		if _, err := Open(c); err == nil {
			t.Errorf("opened with %+v", c)
		}
	}
}

func TestFullAtTwiceTheBudget(t *testing.T) {
	n := newNode(t)
	const size = 100_000
	last := uint64(0)
	var err error
	for err == nil && last < 1000 {
		if err = n.log.StoreLog(entry(last+1, 1, size)); err == nil {
			last++
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("got %v after %d entries, want ErrFull", err, last)
	}
	if got := last * size; got < 3*testBudget/2 || got > 2*testBudget {
		t.Fatalf("full after %d bytes, budget %d", got, testBudget)
	}
	// A batch of which only a part fits leaves nothing behind.
	if err := n.log.StoreLogs(append(entries(last+1, last+2, 1, 100), entry(last+3, 1, size))); !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	n.want(1, last)
	n.reopen()
	n.want(1, last)
	if err := n.log.DeleteRange(1, last-5); err != nil {
		t.Fatal(err)
	}
	if err := n.log.trim(); err != nil {
		t.Fatal(err)
	}
	if used, _ := n.log.Bytes(); used > 2*testSegment {
		t.Fatalf("%d bytes in use after compaction", used)
	}
	n.log.mu.RLock()
	size2 := n.log.size()
	n.log.mu.RUnlock()
	if size2 != testBudget {
		t.Fatalf("%d bytes of files after trim, budget %d", size2, testBudget)
	}
	n.put(last+1, last+20, 1, size)
	if err := n.log.putMark(); err != nil {
		t.Fatal(err)
	}
	n.crash()
	n.mustOpen()
	n.want(last-4, last+20)
}

func TestCrashBeforeTheMarkRevivesOnlyDeletedPrefix(t *testing.T) {
	n := newNode(t)
	n.put(1, 250, 1, 10_000)
	if err := n.log.DeleteRange(1, 220); err != nil {
		t.Fatal(err)
	}
	n.crash()
	n.mustOpen()
	first, _ := n.log.FirstIndex()
	if first > 221 || first < 200 {
		t.Fatalf("log begins at %d, want 221 or the start of its segment", first)
	}
	n.want(first, 250)
	n.wantEntry(first, 1, 10_000)
}

func TestTrailingFor(t *testing.T) {
	n := newNode(t)
	n.put(1, 100, 1, 1000) // 64 + 1024 each
	for bytes, want := range map[int64]uint64{0: 0, 1087: 0, 1088: 1, 10 * 1088: 10, 1 << 40: 100} {
		if got := n.log.TrailingFor(bytes); got != want {
			t.Errorf("%d entries in %d bytes, want %d", got, bytes, want)
		}
	}
	if err := n.log.DeleteRange(1, 40); err != nil {
		t.Fatal(err)
	}
	if got := n.log.TrailingFor(1 << 40); got != 60 {
		t.Errorf("%d entries, want 60", got)
	}
}

func TestCarriedChecksum(t *testing.T) {
	n := newNode(t)
	e := entry(1, 1, 5000)
	e.Extensions = binary.LittleEndian.AppendUint32(nil, crc32.Checksum(e.Data, castagnoli))
	bad := entry(2, 1, 5000)
	bad.Extensions = []byte{1, 2, 3, 4}
	if err := n.log.StoreLogs([]*raft.Log{e, bad}); err != nil {
		t.Fatal(err)
	}
	if sum, ok := n.log.Checksum(bad); !ok || sum != 0x04030201 {
		t.Fatalf("checksum %08x, want the carried one", sum)
	}
	if err := n.log.putMark(); err != nil {
		t.Fatal(err)
	}
	n.close()
	err := n.open()
	var c *corrupt.Error
	if !errors.As(err, &c) || !strings.Contains(c.Reason, "entry 2 fails its checksum") {
		t.Fatalf("got %v, want a corrupt.Error for entry 2", err)
	}
}

func TestBudgetAndSegmentSizeMayChange(t *testing.T) {
	n := newNode(t)
	n.put(1, 200, 1, 10_000)
	n.close()
	n.cfg.Budget, n.cfg.SegmentSize = 16<<20, 2<<20
	n.mustOpen()
	n.put(201, 600, 1, 10_000)
	n.close()
	n.cfg.Budget, n.cfg.SegmentSize = 4<<20, 1<<20
	n.mustOpen()
	n.want(1, 600)
	n.wantEntry(200, 1, 10_000)
	n.wantEntry(600, 1, 10_000)
	if err := n.log.DeleteRange(1, 590); err != nil {
		t.Fatal(err)
	}
	if err := n.log.trim(); err != nil {
		t.Fatal(err)
	}
	n.reopen()
	n.want(591, 600)
}

func TestBudgetGrows(t *testing.T) {
	n := newNode(t, func(c *Config) { c.Most = 3 * testBudget })
	for _, c := range []struct{ ask, want int64 }{{2 * testBudget, 2 * testBudget}, {testBudget, 2 * testBudget}, {9 * testBudget, 3 * testBudget}} {
		if err := n.log.Grow(c.ask); err != nil {
			t.Fatal(err)
		}
		if _, budget := n.log.Bytes(); budget != c.want || n.log.size() != c.want {
			t.Fatalf("asked for %d bytes, the budget is %d and the files have %d, want %d", c.ask, budget, n.log.size(), c.want)
		}
	}
	if got := n.log.MaxEntry(); got != testBudget/8 {
		t.Errorf("an entry may have %d bytes, want an eighth of the first budget: parts are cut by it", got)
	}
	n.put(1, 400, 1, 20_000)
	must(t, n.log.trim())
	if n.log.size() != 3*testBudget {
		t.Errorf("trimmed to %d bytes", n.log.size())
	}
	n.reopen()
	n.want(1, 400) // twice the first budget
	n.close()
	n.cfg.Most = 0
	n.mustOpen()
	must(t, n.log.Grow(9*testBudget))
	if _, budget := n.log.Bytes(); budget != testBudget {
		t.Errorf("the budget grew to %d bytes, and may not", budget)
	}
}

func TestClosed(t *testing.T) {
	n := newNode(t)
	n.put(1, 2, 1, 10)
	l := n.log
	n.close()
	if _, err := l.LastIndex(); !errors.Is(err, ErrClosed) {
		t.Errorf("LastIndex: %v", err)
	}
	if err := l.GetLog(1, new(raft.Log)); !errors.Is(err, ErrClosed) {
		t.Errorf("GetLog: %v", err)
	}
	if err := l.StoreLog(entry(3, 1, 10)); !errors.Is(err, ErrClosed) {
		t.Errorf("StoreLog: %v", err)
	}
	if _, _, err := l.Alloc(10); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
