package p2p_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"hcclps/p2p"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

func sampleSignals() []p2p.Signal {
	return []p2p.Signal{
		{Kind: p2p.SignalGrant, Epoch: 1, ID: 2, Offset: 3 << 32, Bytes: 4 << 20},
		{Kind: p2p.SignalVoid, Epoch: 1, ID: 1<<64 - 1},
		{Kind: p2p.SignalDropped, ID: 5},
		{Kind: p2p.SignalReset, Epoch: 7, Offset: 12, Bytes: 2, Text: "bytes corrupted"},
		{Kind: p2p.SignalPause, Epoch: 1<<32 - 1},
		{Kind: p2p.SignalReady, Offset: 1, Bytes: 3},
		{Kind: p2p.SignalGrantSure, Epoch: 1, ID: 2, Offset: 64, Bytes: 64},
		{Kind: p2p.SignalTaken, Epoch: 1, Offset: 9},
		{Kind: p2p.SignalCredit, Epoch: 1, Bytes: 1 << 20},
		{Kind: p2p.SignalUnasked, Epoch: 1, ID: 3, Bytes: 77},
	}
}

func TestGoldenSignals(t *testing.T) {
	var b strings.Builder
	for _, s := range sampleSignals() {
		fmt.Fprintf(&b, "%x\n", p2p.AppendSignal(nil, s))
	}
	if *rewrite {
		if err := os.WriteFile("testdata/signals.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("testdata/signals.txt")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(golden) {
		t.Errorf("the wire format changed:\n%s", b.String())
	}
	long := p2p.Signal{Kind: p2p.SignalReset, Text: strings.Repeat("x", 10_000)}
	if back, err := p2p.DecodeSignal(p2p.AppendSignal(nil, long)); err != nil || len(back.Text) != 512 {
		t.Errorf("a long text came as %d bytes, %v", len(back.Text), err)
	}
}

func FuzzSignal(f *testing.F) {
	for _, s := range sampleSignals() {
		f.Add(p2p.AppendSignal(nil, s))
	}
	f.Add(make([]byte, 25))
	f.Add(append([]byte{byte(p2p.SignalReady) + 1}, make([]byte, 24)...)) // no kind
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := p2p.DecodeSignal(b)
		if err != nil {
			if !errors.Is(err, p2p.ErrMalformed) {
				t.Errorf("error %v is of no kind", err)
			}
			return
		}
		if again := p2p.AppendSignal(nil, s); !bytes.Equal(again, b) {
			t.Errorf("%s is read as %s", hex.EncodeToString(b), hex.EncodeToString(again))
		}
	})
}
