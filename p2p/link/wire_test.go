package link

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"hcclps/p2p"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

func sampleFrames() []frame {
	return []frame{
		{kind: kindWelcome, calls: 256},
		{kind: kindCall, id: 1, pri: Push, head: []byte("head"), body: []byte("body"), bodyLen: 4},
		{kind: kindCall, id: 2, head: []byte{}, body: []byte{}},
		{kind: kindCall, id: 1<<63 + 5, pri: Background, head: []byte("h"), bodyLen: 1 << 20},
		{kind: kindReply, id: 1, head: []byte("head"), body: []byte("answer"), bodyLen: 6},
		{kind: kindReply, id: 2, status: statusCancelled, head: []byte{}, body: []byte{}},
		{kind: kindReply, id: 3, head: []byte("big"), bodyLen: MaxInline + 1},
		{kind: kindSignal, signal: p2p.Signal{Kind: p2p.SignalGrant, Epoch: 2, ID: 3, Offset: 7 << 20, Bytes: 1 << 20}},
		{kind: kindSignal, signal: p2p.Signal{Kind: p2p.SignalReset, Epoch: 2, Offset: 12, Text: "bytes corrupted"}},
		{kind: kindCancel, id: 9},
		{kind: kindHeartbeat},
		{kind: kindGoodbye, head: []byte("link stopped")},
	}
}

func sampleHellos() ([]Hello, []verdictMsg) {
	hellos := []Hello{
		{Version: Version, Cluster: "c", From: "w1", To: "s1", Purpose: Bulk, Pair: 0x0102030405060708, Epoch: 3, Stripe: 1, Stripes: 2, Info: "host"},
		{Version: Version, Purpose: RaftSnapshot},
	}
	verdicts := []verdictMsg{
		{version: Version, cluster: "c", id: "s1", info: "host"},
		{version: Version, code: codeMalformed, text: "no"},
	}
	return hellos, verdicts
}

func TestGoldenWire(t *testing.T) {
	var b strings.Builder
	for _, f := range sampleFrames() {
		fmt.Fprintf(&b, "frame %x\n", appendFrame(nil, f, f.body))
	}
	hellos, verdicts := sampleHellos()
	for _, h := range hellos {
		msg, err := encodeHello(h)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "hello %x\n", msg)
	}
	for _, v := range verdicts {
		msg, err := encodeVerdict(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "verdict %x\n", msg)
	}
	if *rewrite {
		if err := os.WriteFile("testdata/wire.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("testdata/wire.txt")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(golden) {
		t.Errorf("the wire format changed:\n%s", b.String())
	}
}

func TestFramesComeBack(t *testing.T) {
	var stream []byte
	for _, f := range sampleFrames() {
		stream = appendFrame(stream, f, f.body)
	}
	fr := newFrameReader(bytes.NewReader(stream))
	for _, f := range sampleFrames() {
		got, err := fr.next()
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("%+v came back as %+v, %v", f, got, err)
		}
	}
	if _, err := fr.next(); !errors.Is(err, io.EOF) {
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

func FuzzFrame(f *testing.F) {
	for _, fr := range sampleFrames() {
		f.Add(appendFrame(nil, fr, fr.body))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr := newFrameReader(bytes.NewReader(b))
		var again []byte
		for {
			got, err := fr.next()
			if err != nil {
				break
			}
			again = appendFrame(again, got, got.body)
		}
		if fr.off != int64(len(again)) || !bytes.Equal(again, b[:fr.off]) {
			t.Errorf("%x is read as %x", b, again)
		}
	})
}

func FuzzHello(f *testing.F) {
	hellos, verdicts := sampleHellos()
	for _, h := range hellos {
		b, err := encodeHello(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[4:])
	}
	for _, v := range verdicts {
		b, err := encodeVerdict(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[4:])
	}
	f.Add([]byte("hclp\x02\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHello(b); err == nil {
			again, err := encodeHello(h)
			if err != nil || !bytes.Equal(again[4:], b) {
				t.Errorf("hello %x is read as %x, %v", b, again, err)
			}
		}
		if v, err := decodeVerdict(b); err == nil {
			again, err := encodeVerdict(v)
			if err != nil || !bytes.Equal(again[4:], b) {
				t.Errorf("verdict %x is read as %x, %v", b, again, err)
			}
		}
		if msg, err := readShort(bytes.NewReader(b)); err == nil && len(msg) > maxHello {
			t.Errorf("%d bytes were read from %s", len(msg), hex.EncodeToString(b))
		}
	})
}
