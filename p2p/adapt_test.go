package p2p_test

import (
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
)

// The size of chunks follows what the link is found to be, and then stays.
func TestChunksFollowTheLink(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name  string
		shape p2ptest.Shape
		want  int
	}{
		{"slow", p2ptest.Shape{Bandwidth: 1e9}, mib},
		{"middling", p2ptest.Shape{Bandwidth: 5e9}, 4 * mib},
		{"fast", p2ptest.Shape{Bandwidth: 20e9}, 16 * mib},
		{"slow and far", p2ptest.Shape{Bandwidth: 1e9, Latency: 4 * time.Millisecond}, mib / 2},
		{"middling and far", p2ptest.Shape{Bandwidth: 5e9, Latency: 4 * time.Millisecond}, 2 * mib},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends := overShapedLink(t, c.shape, p2p.Policy{})
				body := make([]byte, 48*mib)
				move := func(id uint64) {
					out, in := ends[0].Send(id, body), ends[1].Receive(id, p2p.Push, body)
					<-in.Done()
					<-out.Done()
					if in.Err() != nil || out.Err() != nil {
						t.Fatal(in.Err(), out.Err())
					}
				}
				for id := range uint64(8) {
					move(id)
				}
				for id := range uint64(5) {
					if s := ends[1].Stats(); s.Chunk != c.want {
						t.Errorf("chunks of %d bytes at %.2f GB/s and %v, want %d", s.Chunk, s.Bandwidth/1e9, s.Latency, c.want)
					}
					move(100 + id)
				}
			})
		})
	}
}
