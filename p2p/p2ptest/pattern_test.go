package p2ptest_test

import (
	"errors"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
)

var (
	_ p2p.Source = p2ptest.Pattern{}
	_ p2p.Sink   = p2ptest.Pattern{}
)

func TestPattern(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 1001} {
		p := p2ptest.Pattern{Seed: 5, N: n}
		whole, parts := make([]byte, n), make([]byte, n)
		_ = p.Fill(0, whole)
		for off := 0; off < n; off += 64 {
			_ = p.Fill(off, parts[off:min(off+64, n)])
		}
		if err := p.Take(0, parts); err != nil || string(whole) != string(parts) {
			t.Errorf("%d bytes made in parts: %v", n, err)
		}
		for i := range n {
			whole[i] ^= 4
			if err := p.Take(0, whole); !errors.Is(err, p2ptest.ErrPattern) {
				t.Errorf("byte %d of %d changed: %v", i, n, err)
			}
			whole[i] ^= 4
		}
		if n > 64 && p.Take(0, whole[8:]) == nil {
			t.Error("bytes that moved were not seen")
		}
	}
}
