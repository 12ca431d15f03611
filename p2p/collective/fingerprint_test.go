package collective

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"hcclps/p2p"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// prints are fingerprints of every kind of field.
var prints = []fingerprint{
	{
		call: Call{
			Group: 0x01020304, Epoch: 5, Seq: 6, Op: AllReduce, Count: 7, DType: p2p.Float32, Reduction: Avg, Root: NoRoot,
			Algorithm: Choice{Level0: Mesh, Level1: Ring}, RankOrder: true, Plan: 0x0a0b0c0d,
		},
		length: 28, inline: 28,
	},
	{call: Call{Seq: 1 << 40, Op: Broadcast, Count: 1 << 40, DType: p2p.BFloat16, Root: 3, Algorithm: Choice{Level1: Tree}}, length: 1 << 41},
	{call: Call{Seq: 1, Op: Barrier, Root: NoRoot, Algorithm: Choice{Level1: Tree}}},
}

func TestFingerprintGolden(t *testing.T) {
	const name = "testdata/fingerprint.hex"
	var lines []string
	for _, f := range prints {
		b := make([]byte, printSize)
		f.encode(b)
		lines = append(lines, hex.EncodeToString(b))
		if got, err := decode(b); err != nil || got != f {
			t.Errorf("decoded %+v (%v), want %+v", got, err, f)
		}
	}
	got := []byte(strings.Join(lines, "\n") + "\n")
	if *rewrite {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("fingerprints are not those of %s:\n%s", name, got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for what, spoil := range map[string]func(b []byte){
		"magic":        func(b []byte) { b[0]++ },
		"version":      func(b []byte) { b[4] = 2 },
		"operation":    func(b []byte) { b[5] = 0 },
		"type":         func(b []byte) { b[6] = 8 },
		"reduction":    func(b []byte) { b[7] = 6 },
		"algorithm":    func(b []byte) { b[9] = 99 },
		"flags":        func(b []byte) { b[10] = 2 },
		"frame":        func(b []byte) { b[11] = 27 },
		"large frame":  func(b []byte) { b[11], b[40] = 65, 65 },
		"count":        func(b []byte) { b[39] = 0x80 },
		"length":       func(b []byte) { b[47] = 0x80; b[11] = 0 },
		"unused bytes": func(b []byte) { b[57] = 1 },
	} {
		b := make([]byte, printSize)
		prints[0].encode(b)
		spoil(b)
		if _, err := decode(b); !errors.Is(err, errFingerprint) {
			t.Errorf("%s: %v", what, err)
		}
		binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli)) // the fault itself, not the sum over it
		if _, err := decode(b); !errors.Is(err, errFingerprint) {
			t.Errorf("%s with a good checksum: %v", what, err)
		}
	}
	if _, err := decode(make([]byte, printSize-1)); !errors.Is(err, errFingerprint) {
		t.Errorf("short: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, p := range prints {
		b := make([]byte, positionSize)
		p.encode(b)
		f.Add(b[:printSize])
		f.Add(b)
	}
	f.Add([]byte("HCFP"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= printSize { // let it come past the checksum
			sum := bytes.Clone(b)
			binary.LittleEndian.PutUint32(sum[60:], crc32.Checksum(sum[:60], castagnoli))
			b = sum
		}
		if f, err := decode(b); err == nil {
			again := make([]byte, printSize)
			f.encode(again)
			if !bytes.Equal(again, b[:printSize]) {
				t.Errorf("% x decodes to %+v, which is % x", b[:printSize], f, again)
			}
			_ = f.call.String()
		}
		if p, err := decodePosition(b); err == nil && p.state != positionNone && !bytes.Equal(p.encode()[printSize:], b[printSize:]) {
			t.Errorf("% x decodes to %v", b, p)
		}
	})
}
