package shard

import "testing"

func TestBuffersKeepWhatFitsAndNoMore(t *testing.T) {
	var b buffers
	small, large := b.get(1000), b.get(1<<20)
	if len(small) != 0 || cap(small) < 1000 || cap(large) < 1<<20 {
		t.Fatalf("memory of %d of %d and of %d bytes", len(small), cap(small), cap(large))
	}
	b.put(append(small, 1))
	b.put(large)
	again := b.get(900)
	if cap(again) != cap(large) || len(again) != 0 {
		t.Errorf("got memory of %d bytes: want what came back last", cap(again))
	}
	if got := b.get(1000); &got[:1][0] != &small[:1][0] {
		t.Error("memory that fits was not used again")
	}
	if got := b.get(1000); &got[:1][0] == &small[:1][0] {
		t.Error("memory was given out twice")
	}
	b.put(make([]byte, 0, keptBytes+1))
	for range 20 {
		b.put(make([]byte, 0, keptBytes/4))
	}
	if len(b.free) != 4 || b.bytes != keptBytes {
		t.Errorf("%d pieces of %d bytes are kept, want 4 of %d", len(b.free), b.bytes, keptBytes)
	}
}
