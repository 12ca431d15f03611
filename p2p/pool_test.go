package p2p_test

import (
	"reflect"
	"sync"
	"testing"

	"hcclps/p2p"
)

func TestPool(t *testing.T) {
	p := p2p.NewPool(10 << 20)
	if p.Get(0) != nil {
		t.Error("memory for nothing")
	}
	sizes := []int{1, 63, 4096, 4097, 1 << 20, 1<<20 + 1, 3 << 20, 65 << 20}
	for _, n := range sizes {
		b := p.Get(n)
		if len(b) != n || reflect.ValueOf(b).Pointer()%64 != 0 {
			t.Errorf("%d bytes: got %d at %x", n, len(b), reflect.ValueOf(b).Pointer())
		}
		p.Put(b)
	}
	if want := 4<<10 + 8<<10 + 1<<20 + 2<<20 + 4<<20; p.Kept() != want {
		t.Errorf("%d bytes kept, want %d: one of each class, and none over 64 MiB", p.Kept(), want)
	}
	b := p.Get(900 << 10)
	b[0] = 7
	p.Put(b[:1])
	if again := p.Get(1 << 20); again[0] != 7 {
		t.Error("memory is not used again")
	}
	if gone := p.Trim(100 << 10); gone != 2<<20+4<<20 || p.Kept() != 12<<10 {
		t.Errorf("trimmed %d bytes, %d are left", gone, p.Kept())
	}
	if gone := p.Trim(0); gone != 12<<10 || p.Kept() != 0 {
		t.Errorf("trimmed %d bytes, %d are left", gone, p.Kept())
	}
	for _, b := range [][]byte{nil, make([]byte, 100), make([]byte, 5000), make([]byte, 8192)[1:], make([]byte, 1<<20+64)[64:]} {
		p.Put(b)
	}
	if p.Kept() > 1<<20 {
		t.Errorf("foreign memory is kept: %d bytes", p.Kept())
	}
	p.Trim(0)
	for range 20 {
		p.Put(make([]byte, 1<<20))
	}
	if p.Kept() != 10<<20 {
		t.Errorf("%d bytes kept of at most %d", p.Kept(), 10<<20)
	}
}

func TestPoolIsShared(t *testing.T) {
	p := p2p.NewPool(1 << 20)
	var all sync.WaitGroup
	for i := range byte(8) {
		all.Go(func() {
			for range 1000 {
				b := p.Get(100 + int(i)*1000)
				for j := range b {
					b[j] = i
				}
				for j := range b {
					if b[j] != i {
						t.Error("two have the same memory")
						return
					}
				}
				p.Put(b)
			}
		})
	}
	all.Wait()
}
