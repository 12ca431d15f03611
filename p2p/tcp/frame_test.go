package tcp

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// control makes a frame without payload.
func control(k kind, rank int, seq, at uint64) []byte {
	return appendHeader(nil, header{kind: k, rank: rank, seq: seq, at: at})
}

// data makes the frame of a piece with its sum.
func data(rank int, seq, at uint64, payload string) []byte {
	h := header{kind: kindData, rank: rank, seq: seq, at: at, size: uint32(len(payload)), sum: crc32.Checksum([]byte(payload), castagnoli)}
	return append(appendHeader(nil, h), payload...)
}

// early makes the frame of a message that goes before its ready.
func early(rank int, seq uint64, payload string) []byte {
	h := header{kind: kindData, eager: true, rank: rank, seq: seq, size: uint32(len(payload)), sum: crc32.Checksum([]byte(payload), castagnoli)}
	return append(appendHeader(nil, h), payload...)
}

// The wire format is pinned: a change of it needs a new version.
func TestFrameBytes(t *testing.T) {
	var got strings.Builder
	for _, f := range []struct {
		name  string
		frame []byte
	}{
		{"ready", control(kindReady, 0, 7, 0x0102030405)},
		{"data", data(1, 2, 1<<20, "123456789")},
		{"done", control(kindDone, 1, 2, 0)},
		{"refuse", control(kindRefuse, 0, 1, 1)},
		{"raw", append(appendHeader(nil, header{kind: kindRaw, rank: 1, seq: 3, at: 16, size: 4}), "data"...)},
		{"early", early(1, 4, "123456789")},
		{"early raw", append(appendHeader(nil, header{kind: kindRaw, eager: true, seq: 5, size: 4}), "data"...)},
	} {
		fmt.Fprintf(&got, "%s\n%s", f.name, hex.Dump(f.frame))
	}
	const golden = "testdata/frames.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("frames are\n%swant\n%s", got.String(), want)
	}
}

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func FuzzParseHeader(f *testing.F) {
	f.Add(control(kindReady, 0, 0, 4096))
	f.Add(data(1, 1, 0, "abc")[:headerSize])
	f.Add(control(kindDone, 0, 1<<40, 0))
	f.Add(control(kindRefuse, 1, 5, 1<<63))
	f.Add(control(kindRaw, 1, 5, 1<<63))
	f.Add(early(0, 2, "abc")[:headerSize])
	f.Add([]byte("p2"))
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		if again := appendHeader(nil, h); !bytes.Equal(again, b) {
			t.Errorf("%x parses as %+v, which is %x", b, h, again)
		}
	})
}

// TestClaimsAgainstBytes compares claims with a byte a byte.
func TestClaimsAgainstBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	taken := 0
	for range 3000 {
		const size = 40
		var c claims
		var twin [size]bool
		for range 60 {
			from := rng.IntN(size)
			to := from + 1 + rng.IntN(min(5, size-from))
			free := !slices.Contains(twin[from:to], true)
			if got := c.add(from, to); got != free {
				t.Fatalf("%v takes [%d, %d): %v, want %v", c, from, to, got, free)
			}
			for i := from; free && i < to; i++ {
				twin[i] = true
				taken++
			}
		}
		if all := !slices.Contains(twin[:], false); all != (c.prefix == size && len(c.later) == 0) {
			t.Fatalf("%v of %v", c, twin)
		}
	}
	if taken < 3000*20 {
		t.Errorf("%d bytes taken: the test tests little", taken)
	}
}

func TestClaimsAreBounded(t *testing.T) {
	var c claims
	for i := range maxClaims {
		if !c.add(2*i+1, 2*i+2) {
			t.Fatalf("hole %d is refused", i)
		}
	}
	if c.add(10*maxClaims, 10*maxClaims+1) {
		t.Error("more holes than the bound")
	}
	for i := range maxClaims {
		if !c.add(2*i, 2*i+1) {
			t.Fatalf("what fills hole %d is refused", i)
		}
	}
	if c.prefix != 2*maxClaims || len(c.later) != 0 {
		t.Errorf("all filled, and left is %+v", c)
	}
}

func TestPieces(t *testing.T) {
	for _, test := range []struct {
		n, stripes   int
		sums, behind bool
		want         int
	}{
		{maxWhole + 1, 1, true, false, 192 << 10},
		{maxWhole + 1, 1, false, false, 192 << 10},
		{1 << 20, 1, true, false, maxSummed},
		{1 << 20, 1, false, false, 1 << 20},
		{1 << 20, 4, true, false, 256 << 10},
		{1 << 20, 4, true, true, 256 << 10},
		{1<<20 + 1, 4, false, false, 320 << 10},
		{1<<20 + 1, 4, false, true, minBehind},
		{300 << 20, 4, true, true, maxSummed},
		{300 << 20, 4, false, false, maxPiece},
		{300 << 20, 4, false, true, maxPiece},
		{256 << 10, 16, true, false, maxWhole},
	} {
		if got := pieceSize(test.n, test.stripes, test.sums, test.behind); got != test.want {
			t.Errorf("%d bytes on %d stripes, sums %v, behind others %v: pieces of %d, want %d", test.n, test.stripes, test.sums, test.behind, got, test.want)
		}
	}
}

func TestQueueAgainstSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q queue[int]
	var twin []int
	for i := range 10_000 {
		if rng.Uint32()%100 < 50+uint32(i/2500) && len(twin) < 40 {
			q.push(i)
			twin = append(twin, i)
		} else if len(twin) > 0 {
			if got := q.pop(); got != twin[0] {
				t.Fatalf("pop %d, want %d", got, twin[0])
			}
			twin = slices.Delete(twin, 0, 1)
		}
		if q.len() != len(twin) {
			t.Fatalf("length %d, want %d", q.len(), len(twin))
		}
		for j, want := range twin {
			if q.at(j) != want {
				t.Fatalf("at %d: %d, want %d", j, q.at(j), want)
			}
		}
	}
	if cap(q.items) > 256 {
		t.Errorf("queue of at most 40 items grew to %d", cap(q.items))
	}
}
