package raftlog

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// memoryLog is a log without files or store: segments in plain memory, for the pure part of recovery.
func memoryLog(sizes ...int) *Log {
	l := &Log{
		cfg: Config{Group: 7, Budget: int64(len(sizes)*sizes[0]) / 2, SegmentSize: int64(sizes[0])}, id: logID([]byte("0123456789abcdef")),
		write: make(latch, 1), marking: make(latch, 1), growing: make(latch, 1), budget: int64(len(sizes)*sizes[0]) / 2, rolled: make(chan struct{}, 1), failed: make(chan struct{}),
		frozen: true, log: slog.New(slog.DiscardHandler),
	}
	for i, n := range sizes {
		g := &segment{no: uint32(i), path: fmt.Sprintf("seg%d", i), m: make([]byte, n), low: n}
		g.reserve(l.id, 7)
		l.free = append([]*segment{g}, l.free...)
	}
	return l
}

func (l *Log) images() (out [][]byte) {
	all := l.files()
	slices.SortFunc(all, func(a, b *segment) int { return int(a.no) - int(b.no) })
	for _, g := range all {
		out = append(out, bytes.Clone(g.m))
	}
	return out
}

// restore makes a log of images by replay and mend.
func restore(images [][]byte, m mark) (*Log, *history, string, error) {
	l := memoryLog(slices.Repeat([]int{len(images[0])}, len(images))...)
	l.free = nil
	var segs []*segment
	for i, b := range images {
		segs = append(segs, &segment{no: uint32(i), path: fmt.Sprintf("seg%d", i), m: bytes.Clone(b)})
	}
	h, lost, err := replay(segs, l.id, 7, m)
	if lost != "" || err != nil {
		return nil, nil, lost, err
	}
	h.mend()
	l.segs, l.free, l.first, l.last, l.chain, l.seq = h.segs, h.rest, h.first, h.last, h.chain, max(h.seq, m.seq)
	return l, h, "", nil
}

func goldenLog(tb testing.TB) *Log {
	tb.Helper()
	l := memoryLog(1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024)
	es := []*raft.Log{
		{Index: 41, Term: 5, Type: raft.LogNoop},
		{Index: 42, Term: 5, Type: raft.LogCommand, Data: []byte("the answer"), AppendedAt: time.Unix(0, 1_700_000_000_123_456_789)},
		{Index: 43, Term: 6, Type: raft.LogConfiguration, Data: bytes.Repeat([]byte{0xab}, 500)},
		{Index: 44, Term: 6, Type: raft.LogCommand, Data: bytes.Repeat([]byte{0xcd}, 300)},
	}
	if err := l.StoreLogs(es); err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestGoldenSegment(t *testing.T) {
	var text strings.Builder
	for i, b := range goldenLog(t).images()[:3] {
		fmt.Fprintf(&text, "segment %d\n%s", i, hex.Dump(b))
	}
	path := filepath.Join("testdata", "segment.golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the format changed:\n%s", text.String())
	}
}

func TestTornTailAtEveryByte(t *testing.T) {
	l := memoryLog(4096, 4096)
	for i := uint64(1); i <= 5; i++ {
		if err := l.StoreLog(entry(i, 1, 100)); err != nil {
			t.Fatal(err)
		}
	}
	before, spare := l.images()[0], l.images()[1]
	if err := l.StoreLog(entry(6, 1, 100)); err != nil {
		t.Fatal(err)
	}
	after := l.images()[0]
	// All bytes of frame and payload are written but one, which keeps its old value; then all but those from it on.
	for at := range after {
		if before[at] == after[at] {
			continue
		}
		one, rest := bytes.Clone(after), bytes.Clone(after)
		one[at] = before[at]
		if end := headerSize + 6*frameSize; at < end {
			copy(rest[at:end], before[at:end])
		} else {
			rest = one
		}
		for _, img := range [][]byte{one, rest} {
			l, _, lost, err := restore([][]byte{img, spare}, mark{first: 1, last: 5, chain: chainAt(before, 5), seq: 1})
			if lost != "" || err != nil {
				t.Fatalf("byte %d: %s %v", at, lost, err)
			}
			if last, _ := l.LastIndex(); last != 5 && !bytes.Equal(img, after) {
				t.Fatalf("byte %d torn: log ends at %d", at, last)
			}
			if err := l.StoreLog(entry(6, 2, 50)); err != nil {
				t.Fatal(err)
			}
			n := node{tb: t, log: l}
			n.wantEntry(5, 1, 100)
			n.wantEntry(6, 2, 50)
		}
		// With a mark at 6 the same bytes are corruption, and it is named.
		_, _, lost, err := restore([][]byte{one, spare}, mark{first: 1, last: 6, chain: chainAt(after, 6), seq: 1})
		if lost == "" && err == nil {
			t.Fatalf("byte %d of a marked entry changed unnoticed", at)
		}
	}
}

// chainAt reads the chained CRC of the i-th descriptor.
func chainAt(img []byte, i int) uint32 {
	return readFrame(img[headerSize+(i-1)*frameSize:][:frameSize]).chain
}

// TestStaleFramesStayDead cuts the log, appends, and puts back what a power loss may bring back: every cut descriptor,
// and the header of the segment after.
func TestStaleFramesStayDead(t *testing.T) {
	const size = 100
	for cut := uint64(2); cut <= 8; cut++ {
		l := memoryLog(1536, 1536, 1536) // 7 entries in the first
		n := node{tb: t, log: l}
		n.put(1, 8, 1, size)
		old := l.images()
		must(t, l.DeleteRange(cut, 8))
		n.put(cut, cut, 2, size)
		now, back := l.images(), 0
		for i := range now {
			for at := headerSize; at <= 8*frameSize && at < l.segs[0].low; at += frameSize {
				if !anySet(now[i][at+publishAt:][:8]) && anySet(old[i][at+publishAt:][:8]) {
					copy(now[i][at:at+frameSize], old[i][at:at+frameSize])
					back++
				}
			}
		}
		if cut < 8 {
			copy(now[1][:headerSize], old[1][:headerSize])
		}
		if back == 0 && cut < 7 {
			t.Fatalf("cut at %d: nothing was put back", cut)
		}
		l, _, lost, err := restore(now, mark{})
		if lost != "" || err != nil {
			t.Fatal(lost, err)
		}
		n.log = l
		n.want(1, cut)
		n.wantEntry(cut-1, 1, size)
		n.wantEntry(cut, 2, size)
	}
}

// TestBreakIsMended: after a break in the middle, the same entry written again does not bring back those behind it.
func TestBreakIsMended(t *testing.T) {
	for name, harm := range map[string]struct {
		seg, at int
		last    uint64
	}{
		"descriptor":                 {0, headerSize + 3*frameSize + 8, 3},
		"header of the next segment": {1, 33, 7},
	} {
		l := memoryLog(1536, 1536)
		n := node{tb: t, log: l}
		n.put(1, 10, 1, 100)
		img := l.images()
		img[harm.seg][harm.at] ^= 1
		l, h, lost, err := restore(img, mark{seq: 1, first: 1, last: 1, chain: chainAt(img[0], 1)})
		if lost != "" || err != nil || h.broken == nil {
			t.Fatal(name, lost, err)
		}
		n.log = l
		n.want(1, harm.last)
		n.put(harm.last+1, harm.last+1, 1, 100)
		if n.log, _, lost, err = restore(l.images(), mark{}); lost != "" || err != nil {
			t.Fatal(name, lost, err)
		}
		n.want(1, harm.last+1)
	}
}

func TestUnsealNoticesEveryBit(t *testing.T) {
	good := seal("key", []byte("value"))
	if v, err := unseal("key", good); err != nil || string(v) != "value" {
		t.Fatal(v, err)
	}
	if _, err := unseal("kex", good); err == nil {
		t.Error("a value was read under another key")
	}
	for at := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << bit
			if _, err := unseal("key", bad); err == nil {
				t.Errorf("byte %d bit %d changed unnoticed", at, bit)
			}
		}
		if _, err := unseal("key", good[:at]); err == nil {
			t.Errorf("cut to %d bytes unnoticed", at)
		}
	}
}

func TestRecycledSegmentHidesItsOldFrames(t *testing.T) {
	l := memoryLog(1024, 1024, 1024)
	n := node{tb: t, log: l}
	for i := uint64(1); i < 60; i++ {
		n.put(i, i, 1, 64)
		if i > 4 {
			if err := l.DeleteRange(1, i-3); err != nil {
				t.Fatal(err)
			}
		}
		r, _, lost, err := restore(l.images(), mark{})
		if lost != "" || err != nil {
			t.Fatal(lost, err)
		}
		if last, _ := r.LastIndex(); last != i {
			t.Fatalf("after %d entries the log ends at %d", i, last)
		}
	}
}

// FuzzReplay changes bytes of good segments: recovery never panics and never serves a payload that was not stored.
func FuzzReplay(f *testing.F) {
	l := memoryLog(2048, 2048, 2048, 2048)
	for i := uint64(1); i <= 30; i++ {
		if err := l.StoreLog(entry(i, i/4, int(i*13%200))); err != nil {
			f.Fatal(err)
		}
	}
	good := l.images()
	m := mark{seq: l.seq, first: l.first, last: 12}
	for _, g := range l.segs {
		if g.holds(12) {
			m.chain = g.frameAt(12).chain
		}
	}
	f.Add(uint16(0), []byte{}, uint16(0), []byte{}, false)
	f.Add(uint16(70), []byte{1}, uint16(2100), []byte{0xff, 0}, true)
	f.Add(uint16(64+24), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint16(32), []byte{9}, false)
	f.Add(uint16(40), bytes.Repeat([]byte{0xa5}, 4000), uint16(56), []byte{1, 2, 3}, true)
	f.Fuzz(func(t *testing.T, at1 uint16, x1 []byte, at2 uint16, x2 []byte, marked bool) {
		var img [][]byte
		for _, g := range good {
			img = append(img, bytes.Clone(g))
		}
		for _, c := range []struct {
			at uint16
			x  []byte
		}{{at1, x1}, {at2, x2}} {
			for i, b := range c.x {
				p := (int(c.at) + i) % (4 * 2048)
				img[p/2048][p%2048] ^= b
			}
		}
		use := mark{}
		if marked {
			use = m
		}
		l, _, lost, err := restore(img, use)
		if lost != "" || err != nil {
			return
		}
		n := node{tb: t, log: l}
		if marked && l.last < 12 {
			t.Fatalf("log ends at %d before the mark", l.last)
		}
		for i := l.first; i <= l.last && i > 0; i++ {
			n.wantEntry(i, i/4, int(i*13%200))
		}
		if err := l.StoreLog(entry(l.last+1, 99, 64)); err == nil {
			n.wantEntry(l.last, 99, 64)
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(logRecord{files: []fileRef{{1, minSegment}, {2, maxSegment}}}.encode())
	f.Add(mark{seq: 3, first: 1, last: 9, chain: 77}.encode())
	f.Add(seal("key", []byte("value")))
	f.Add(encodeWitness(12))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRecord(b); err == nil && !bytes.Equal(r.encode(), b) {
			t.Errorf("record %x became %x", b, r.encode())
		}
		if m, err := decodeMark(b); err == nil && !bytes.Equal(m.encode(), b) {
			t.Errorf("mark %x became %x", b, m.encode())
		}
		if v, err := unseal("key", b); err == nil && !bytes.Equal(seal("key", v), b) {
			t.Errorf("value %x became %x", b, seal("key", v))
		}
		if _, ok := decodeWitness(b); ok && len(b) != 16 {
			t.Errorf("witness of %d bytes", len(b))
		}
	})
}
