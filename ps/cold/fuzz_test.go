package cold

import (
	"bytes"
	"testing"
)

// FuzzSegment: no bytes break the decoder, and what was written comes back; a changed byte does not.
func FuzzSegment(f *testing.F) {
	key := []byte("12345678")
	f.Add(appendSegment(nil, key, []uint32{1, 5, 9}, []byte("one.fivenine")), []byte("one.fivenine"), 7, byte(1))
	f.Add(appendSegment(nil, key, []uint32{3}, []byte("x")), []byte("xyzxyzxyz"), 0, byte(255))
	f.Add([]byte{}, []byte{}, 0, byte(0))
	f.Fuzz(func(t *testing.T, value, data []byte, at int, flip byte) {
		if s, err := decodeSegment(key, value); err == nil {
			for i := range s.n {
				_, _ = s.unit(i)
			}
			_ = s.find(5, make([]byte, s.size))
		}
		ids := []uint32{1, 5, 9}
		if data = data[:len(data)/3*3]; len(data) == 0 {
			return
		}
		size := len(data) / 3
		value = appendSegment(nil, key, ids, data)
		s, err := decodeSegment(key, value)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, size)
		for i, id := range ids {
			if err := s.find(id, got); err != nil || !bytes.Equal(got, data[i*size:][:size]) {
				t.Fatalf("unit %d: %x, %v", id, got, err)
			}
		}
		if s.find(4, got) == nil || s.find(5, make([]byte, size+1)) == nil {
			t.Fatal("another unit, or another length, is found")
		}
		if at < 0 || flip == 0 {
			return
		}
		value[at%len(value)] ^= flip
		whole := 0
		if s, err = decodeSegment(key, value); err == nil {
			for i, id := range ids {
				if s.find(id, got) == nil && bytes.Equal(got, data[i*size:][:size]) {
					whole++
				} else if s.find(id, got) == nil {
					t.Fatalf("unit %d was changed and is accepted", id)
				}
			}
		}
		if whole == len(ids) {
			t.Fatal("a changed byte is accepted")
		}
	})
}
