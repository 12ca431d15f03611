package inproc_test

import (
	"fmt"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
)

func TestWorld(t *testing.T) {
	p2ptest.TestComm(t, func(_ *testing.T, n int) []p2p.Comm { return inproc.World(n) })
}

func BenchmarkWorld(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			comms := inproc.World(2)
			out, in := make([]byte, size), make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				recv := comms[1].Irecv(0, p2p.Bytes(in))
				if err := p2p.Send(b.Context(), comms[0], 1, p2p.Bytes(out)); err != nil {
					b.Fatal(err)
				}
				if err := recv.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
