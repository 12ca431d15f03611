package shm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"testing"

	"hcclps/p2p"
)

func someHello() hello {
	h := hello{version: version, rank: 1, passes: true, pid: 0x01020304, uid: 65534, ring: 1 << 20, arena: 1 << 30}
	copy(h.nonce[:], "0123456789abcdef")
	return h
}

func someHeaders() []header {
	return []header{
		{length: 5, number: 0, kind: kindInline},
		{length: 1 << 33, number: 7, kind: kindRing},
		{length: 1 << 20, number: 1<<32 - 1, kind: kindPlace, place: 1 << 19},
	}
}

func lineOf(h header) []byte {
	b := make([]byte, line)
	h.put(b)
	return b
}

// The bytes are what the doc comments say, for good.
func TestGolden(t *testing.T) {
	var got bytes.Buffer
	o := offer{way: wayFound, fd: 9, ring: 1 << 20, total: 1<<31 + 8192}
	fmt.Fprintf(&got, "hello   %s\n", hex.EncodeToString(someHello().encode()))
	fmt.Fprintf(&got, "offer   %s\n", hex.EncodeToString(o.encode()))
	fmt.Fprintf(&got, "verdict %s\n", hex.EncodeToString(encodeVerdict(true)))
	for _, h := range someHeaders() {
		fmt.Fprintf(&got, "header  %s\n", hex.EncodeToString(bytes.TrimRight(lineOf(h), "\x00")))
	}
	const name = "testdata/wire.txt"
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("bytes on the wire differ from %s:\n%s", name, got.Bytes())
	}
}

func FuzzHello(f *testing.F) {
	f.Add(someHello().encode())
	f.Add([]byte("shm?"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			if !errors.Is(err, p2p.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if h.version == version && !bytes.Equal(h.encode(), b) {
			t.Errorf("%x became %x", b, h.encode())
		}
	})
}

func FuzzOffer(f *testing.F) {
	f.Add(offer{way: wayPassed, ring: 1 << 20, total: 1 << 21}.encode())
	f.Add(offer{way: wayFound, fd: 3}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeOffer(b)
		if err != nil {
			if !errors.Is(err, p2p.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if again, err := decodeOffer(o.encode()); err != nil || again != o {
			t.Errorf("%+v became %+v, %v", o, again, err)
		}
		l := layout{ring: o.ring, arena: [2]uint64{page, page}}
		if l.check() == nil && l.total() < l.ring {
			t.Errorf("layout %+v has %d bytes", l, l.total())
		}
	})
}

func FuzzVerdict(f *testing.F) {
	f.Add(encodeVerdict(true))
	f.Add(encodeVerdict(false))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ok, err := decodeVerdict(b); err == nil && ok != (b[4] == 1) {
			t.Errorf("%x means %v", b, ok)
		}
	})
}

func FuzzHeader(f *testing.F) {
	for _, h := range someHeaders() {
		f.Add(lineOf(h), h.number, uint64(1<<21))
	}
	f.Fuzz(func(t *testing.T, b []byte, number uint32, arena uint64) {
		if len(b) != line {
			return
		}
		h, err := parseHeader(b, number, arena)
		if err != nil {
			if !errors.Is(err, p2p.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if h.kind == kindPlace && (h.place+h.length > arena || h.place+h.length < h.place) {
			t.Errorf("%+v is not in an arena of %d bytes", h, arena)
		}
		again, err := parseHeader(lineOf(h), number, arena)
		if err != nil || again != h {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}
