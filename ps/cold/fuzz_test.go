package cold

import (
	"bytes"
	"testing"
)

// FuzzUnseal: what is not a sealed unit is refused, and a sealed one comes back.
func FuzzUnseal(f *testing.F) {
	f.Add([]byte("12345678"), []byte("a unit"), 3, byte(1))
	f.Add([]byte("12345678"), []byte{}, 0, byte(255))
	f.Fuzz(func(t *testing.T, key, unit []byte, at int, flip byte) {
		value := seal(nil, key, unit)
		got := make([]byte, len(unit))
		if err := unseal(got, key, value); err != nil || !bytes.Equal(got, unit) {
			t.Fatalf("%x, %v", got, err)
		}
		if unseal(make([]byte, len(unit)+1), key, value) == nil || unseal(got, key, value[:len(value)-1]) == nil {
			t.Fatal("another length is accepted")
		}
		if at >= 0 && flip != 0 {
			value[at%len(value)] ^= flip
			if unseal(got, key, value) == nil {
				t.Fatal("a changed byte is accepted")
			}
		}
	})
}
