package tcp

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"
)

// The wire format is pinned: a change of it needs a new version.
func TestHeaderBytes(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"ready", appendHeader(nil, kindReady, 0, 0x0102030405, 7, nil), "70320101" + "d59f9fd3" + "0504030201000000" + "0700000000000000"},
		{"data", appendHeader(nil, kindData, 1, 9, 2, []byte("123456789")), "70320182" + "1143addc" + "0900000000000000" + "0200000000000000"},
		{"done", appendHeader(nil, kindDone, 1, 0, 2, nil), "70320183" + "0ea6727e" + "0000000000000000" + "0200000000000000"},
		{"refuse", appendHeader(nil, kindRefuse, 0, 1, 1, nil), "70320104" + "0a496eb4" + "0100000000000000" + "0100000000000000"},
	}
	for _, test := range tests {
		if got := hex.EncodeToString(test.got); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(appendHeader(nil, kindReady, 0, 4096, 0, nil))
	f.Add(appendHeader(nil, kindData, 1, 3, 1, []byte("abc")))
	f.Add(appendHeader(nil, kindDone, 0, 0, 1<<40, nil))
	f.Add(appendHeader(nil, kindRefuse, 1, 1<<63, 5, nil))
	f.Add([]byte("p2"))
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		again := appendHeader(nil, h.kind, h.rank, h.length, h.seq, nil)
		if h.kind == kindData { // its sum is not known without the payload
			copy(again[4:8], b[4:8])
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x parses as %+v, which is %x", b, h, again)
		}
	})
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
