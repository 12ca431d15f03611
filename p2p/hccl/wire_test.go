package hccl

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hcclps/p2p/hccl/acl"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func examples() []frame {
	return []frame{
		{kind: kindHello, data: []byte(`{"protocol":1}`)},
		{kind: kindRefuse, data: []byte("no room")},
		{kind: kindReady},
		{kind: kindPost, flow: 1, device: true, n: 1 << 40},
		{kind: kindStaged, flow: 1, n: 1},
		{kind: kindRoom, n: 3},
		{kind: kindStep, flow: 1, last: true, n: 2 << 20},
		{kind: kindBye, flow: byeLength, n: 999, m: 1000, data: []byte{1}},
		{kind: kindDrained},
	}
}

func same(a, b frame) bool {
	return a.kind == b.kind && a.flow == b.flow && a.device == b.device && a.last == b.last && a.n == b.n && a.m == b.m && bytes.Equal(a.data, b.data)
}

// The bytes of frames are what they were: testdata/frames.txt is part of the protocol's version.
func TestFramesAreGolden(t *testing.T) {
	var text strings.Builder
	for _, f := range examples() {
		b := f.appendTo(nil)
		text.WriteString(hex.EncodeToString(b) + "\n")
		got, err := readFrame(bufio.NewReader(bytes.NewReader(b)))
		if err != nil || !same(got, f) {
			t.Errorf("%+v came back as %+v, %v", f, got, err)
		}
		if _, err := readFrame(bufio.NewReader(bytes.NewReader(b[:len(b)-1]))); err == nil {
			t.Errorf("%+v without its last byte was read", f)
		}
	}
	golden := filepath.Join("testdata", "frames.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("frames are not those of %s:\n%s", golden, text.String())
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, e := range examples() {
		f.Add(e.appendTo(nil))
	}
	f.Add([]byte("hc\x01\x01"))
	f.Add(frame{kind: kindEnd}.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readFrame(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		if len(got.data) > maxData || got.kind == 0 || got.kind >= kindEnd {
			t.Fatalf("%+v", got)
		}
		if back := got.appendTo(nil); !bytes.Equal(back, b[:len(back)]) {
			t.Errorf("%x was read as %+v, which is %x", b, got, back)
		}
	})
}

func FuzzParseHello(f *testing.F) {
	f.Add([]byte(`{"protocol":1,"rank":0,"host":"h","physical":3,"chip":"Ascend910B3","version":"1.13.0","buffer_mib":16,"piece":2097152,"exec_secs":68}`))
	f.Add([]byte(`{"protocol":2}`))
	f.Add([]byte(`{"protocol":1,"rank":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			if !errors.Is(err, errFrame) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		if h.Protocol == protocolVersion && (h.Piece%64 != 0 || h.Piece < minPiece || h.BufferMiB < 1) {
			t.Errorf("%q: %+v", b, h)
		}
	})
}

func FuzzParseRoot(f *testing.F) {
	f.Add(make([]byte, acl.RootInfoBytes))
	f.Add(append(make([]byte, acl.RootInfoBytes), "hcclps-x"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, info, err := parseRoot(b)
		if err == nil && (!bytes.Equal(append(info[:], name...), b) || name == "" || len(name) > maxName) {
			t.Errorf("%d bytes: name %q", len(b), name)
		}
	})
}
