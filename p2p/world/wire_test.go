package world

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hcclps/p2p"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

func sampleHellos() []hello {
	return []hello{
		{
			version: version, purpose: joining, job: "train", from: 3, size: 8, id: 0x0102030405060708,
			address: "10.0.0.3:4001", host: "c boot", info: "c, process 7", name: "worker 3", terms: "mode=ring\nseed=1",
		},
		{
			version: version, purpose: pairing, job: "train", from: 1, to: 3, size: 8, id: 0x1112131415161718, epoch: 2,
			comm: "gradients", ranks: "0-3,5", attempt: 4, stripe: 1, stripes: 2, info: "a",
		},
		{version: version, purpose: joining},
		{
			version: version, purpose: joining, job: "train", from: 3, size: 8, id: 0x0102030405060708,
			address: "10.0.0.3:4002", host: "c boot", info: "c, process 7", epoch: 2, last: 0x1112131415161718, born: 1, number: 4, dead: 1, lost: 2,
		},
	}
}

func sampleFrames() []frame {
	return []frame{
		{kind: kindHeartbeat},
		{kind: kindMissing, text: "ranks 2-3 of 8 missing"},
		{kind: kindAbandon, text: "rank 2 of 8 missing"},
		{kind: kindMember, rank: 3, address: "10.0.0.3:4001", host: "c boot", text: "c, process 7"},
		{kind: kindReady, query: 0x1112131415161718, epoch: 2, rank: 3, center: 1, host: "c boot", text: "c, process 7"},
		{kind: kindFailed, rank: 3, text: "disk full"},
		{kind: kindFailed, rank: 3, scope: "sub", text: "disk full"},
		{kind: kindLeft, rank: 65535, text: "context canceled"},
		{kind: kindAsk, query: 9},
		{kind: kindAsk, query: 10, scope: "sub"},
		{kind: kindPosition, query: 9, rank: 3, position: []byte("allreduce 17")},
		{kind: kindPosition, query: 1 << 63, age: gone},
		{kind: kindAnswered, query: 9},
		{kind: kindRebuild, address: "10.0.0.3:4002"},
		{kind: kindWaiting, count: 2},
		{kind: kindMoved},
	}
}

func TestGoldenWire(t *testing.T) {
	var b strings.Builder
	for _, h := range sampleHellos() {
		msg, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "hello %x\n", msg)
	}
	for _, a := range []answer{{}, {refusal: "rank 3 is taken"}} {
		fmt.Fprintf(&b, "answer %x\n", a.encode())
	}
	for _, f := range sampleFrames() {
		fmt.Fprintf(&b, "frame %x\n", appendFrame(nil, f))
	}
	golden(t, "testdata/wire.txt", b.String())
}

// golden compares got with a file, or writes that.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not what %s has (see -rewrite):\n%s", name, got)
	}
}

func TestFramesComeBack(t *testing.T) {
	var stream []byte
	for _, f := range sampleFrames() {
		stream = appendFrame(stream, f)
	}
	fr := newFrameReader(bytes.NewReader(stream))
	for _, f := range sampleFrames() {
		got, err := fr.next()
		if len(got.position) == 0 {
			got.position = nil
		}
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("%+v came back as %+v, %v", f, got, err)
		}
	}
	if _, err := fr.next(); err != io.EOF { //nolint:errorlint // must be bare
		t.Errorf("at the end: %v", err)
	}
	for cut := range len(stream) {
		fr := newFrameReader(bytes.NewReader(stream[:cut]))
		var err error
		for err == nil {
			_, err = fr.next()
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// stutter gives a few bytes, then a fault, then some more.
type stutter struct {
	b    []byte
	rng  *rand.Rand
	fail bool
}

var errPause = errors.New("pause")

func (s *stutter) Read(p []byte) (int, error) {
	if s.fail = !s.fail; s.fail {
		return 0, errPause
	}
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+s.rng.IntN(9))], s.b)
	s.b = s.b[n:]
	return n, nil
}

// A reader that was interrupted goes on where it was.
func TestReaderGoesOn(t *testing.T) {
	var stream []byte
	for _, f := range sampleFrames() {
		stream = appendFrame(stream, f)
	}
	fr := newFrameReader(&stutter{b: stream, rng: rand.New(rand.NewPCG(1, 2))})
	var again []byte
	for {
		f, err := fr.next()
		switch {
		case errors.Is(err, errPause):
			continue
		case errors.Is(err, io.EOF):
			if !bytes.Equal(again, stream) {
				t.Errorf("read %x, want %x", again, stream)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		again = appendFrame(again, f)
	}
}

// The longest frame there is fits the reader.
func TestLongestFrame(t *testing.T) {
	name, text := strings.Repeat("n", maxName), strings.Repeat("t", 2*maxText)
	b := appendFrame(nil, frame{kind: kindMember, address: name, host: name, text: text})
	if f, err := newFrameReader(bytes.NewReader(b)).next(); err != nil || f.host != name || f.text != text[:maxText] {
		t.Errorf("%+v, %v", f, err)
	}
	if h, err := (hello{purpose: joining, job: name, address: name, host: name, info: text, ranks: text, comm: name, name: name, terms: strings.Repeat("t", maxTerms)}).encode(); err != nil || len(h) > maxHello {
		t.Errorf("%d bytes: %v", len(h), err)
	}
	if _, err := (hello{comm: name + "n"}).encode(); err == nil {
		t.Error("a name that is too long was sent")
	}
}

func FuzzFrame(f *testing.F) {
	for _, fr := range sampleFrames() {
		f.Add(appendFrame(nil, fr))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr := newFrameReader(bytes.NewReader(b))
		var again []byte
		for {
			got, err := fr.next()
			if err != nil {
				break
			}
			again = appendFrame(again, got)
		}
		if fr.off != int64(len(again)) || !bytes.Equal(again, b[:fr.off]) {
			t.Errorf("%x is read as %x", b, again)
		}
	})
}

func FuzzHello(f *testing.F) {
	for _, h := range sampleHellos() {
		b, err := h.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[4:])
	}
	f.Add(answer{refusal: "no"}.encode()[4:])
	f.Add([]byte("hcwd\x09\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		switch {
		case errors.Is(err, errVersion):
			if h.version == version {
				t.Errorf("version %d is refused", h.version)
			}
		case err == nil:
			again, err := h.encode()
			if err != nil || !bytes.Equal(again[4:], b) {
				t.Errorf("hello %x is read as %x, %v", b, again, err)
			}
		}
		if a, err := decodeAnswer(b); err == nil && a.version == version && !bytes.Equal(a.encode()[4:], b) {
			t.Errorf("answer %x is read as %x", b, a.encode())
		}
		if msg, err := readShort(bytes.NewReader(b)); err == nil && len(msg) > maxHello {
			t.Errorf("%d bytes were read", len(msg))
		}
	})
}

func FuzzNote(f *testing.F) {
	f.Add(note{1, 2, "10.0.0.1:4000"}.String())
	f.Add("2 0000000000000001 0000000000000002 a:1")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseNote(text); err == nil && n.String() != text {
			t.Errorf("%q is read as %+v", text, n)
		} else if err != nil && !errors.Is(err, p2p.ErrRefused) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestRefusedHellos(t *testing.T) {
	whole, err := sampleHellos()[1].encode()
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) - 4 {
		if _, err := decodeHello(whole[4 : 4+cut]); !errors.Is(err, p2p.ErrMalformed) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	for name, change := range map[string]func(b []byte){
		"magic": func(b []byte) { b[0] = 'x' }, "purpose": func(b []byte) { b[6] = 9 }, "stripe": func(b []byte) { b[7] = 2 }, "stripes": func(b []byte) { b[8] = 99 },
	} {
		b := slices.Clone(whole[4:])
		change(b)
		if _, err := decodeHello(b); !errors.Is(err, p2p.ErrMalformed) {
			t.Errorf("wrong %s: %v", name, err)
		}
	}
}

func TestFormatRanks(t *testing.T) {
	var odd, odder []int
	for r := range 1000 {
		odd = append(odd, 2*r)
		odder = append(odder, 2*r)
	}
	odder[999]++
	for want, ranks := range map[string][]int{
		"": nil, "0": {0}, "0-3,5": {0, 1, 2, 3, 5}, "3,1-2,0": {3, 1, 2, 0}, "7,9,11-12": {7, 9, 11, 12},
	} {
		if got := formatRanks(ranks); got != want {
			t.Errorf("%v is %q, want %q", ranks, got, want)
		}
	}
	if a, b := formatRanks(odd), formatRanks(odder); a == b || len(a) > maxText || !strings.Contains(a, "1000 ranks") {
		t.Errorf("%q and %q", a, b)
	}
}
