package p2p_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/internal/vec"
	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/tcp"
)

// overShapedLink makes two ends whose Comm is a tcp pair over an in-memory connection of that shape.
func overShapedLink(t testing.TB, shape p2ptest.Shape, policy p2p.Policy) [2]*p2p.Transfer {
	t.Helper()
	var conns [2]net.Conn
	conns[0], conns[1] = inproc.Pipe(0)
	return connected(t, policy, func(_ context.Context, rank int) (p2p.RunningComm, error) {
		return tcp.Pair([]net.Conn{shape.Conn(conns[rank])}, rank), nil
	}).ends
}

// slowCodec takes its time for every byte, as an encoder, and as a decoder that applies what it decodes.
type slowCodec struct {
	n    int
	rate float64 // bytes a second
	data []byte
}

func (c *slowCodec) Len() int { return c.n }

func (c *slowCodec) work(n int) {
	<-time.After(time.Duration(float64(n) / c.rate * float64(time.Second)))
}

func (c *slowCodec) Fill(off int, p []byte) error {
	c.work(len(p))
	copy(p, c.data[off:])
	return nil
}

func (c *slowCodec) Take(off int, p []byte) error {
	c.work(len(p))
	copy(c.data[off:], p)
	return nil
}

// Encoding, the wire and applying overlap chunk by chunk: the whole takes little longer than the slowest of them.
func TestCodecAndWireOverlap(t *testing.T) {
	const size = 64 << 20
	const wire = 1e9
	data := noise(1, size)
	for _, c := range []struct{ encode, apply float64 }{{1.1e9, 1.1e9}, {0.7e9, 4e9}, {4e9, 0.7e9}, {2e9, 2e9}} {
		t.Run(fmt.Sprintf("encode %.1f apply %.1f", c.encode/1e9, c.apply/1e9), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends := overShapedLink(t, p2ptest.Shape{Bandwidth: wire, Latency: 100 * time.Microsecond}, p2p.Policy{})
				got := make([]byte, size)
				began := time.Now()
				out := ends[0].SendFrom(1, &slowCodec{size, c.encode, data})
				in := ends[1].ReceiveInto(1, p2p.Push, &slowCodec{size, c.apply, got})
				<-in.Done()
				took := time.Since(began)
				<-out.Done()
				if in.Err() != nil || out.Err() != nil || !bytes.Equal(got, data) {
					t.Fatalf("%v, %v", in.Err(), out.Err())
				}
				slowest := time.Duration(float64(size) / min(wire, c.encode, c.apply) * float64(time.Second))
				if took > slowest*115/100 || took < slowest {
					t.Errorf("took %v, the slowest part alone %v (%.2f)", took, slowest, took.Seconds()/slowest.Seconds())
				}
				t.Logf("%v, %.2f x the slowest part", took, took.Seconds()/slowest.Seconds())
			})
		})
	}
}

// toHalf is a codec that does real work: float32 to their upper 16 bits, rounded, and back, added to what is there.
type toHalf []float32

func (c toHalf) Len() int { return 2 * len(c) }

func (c toHalf) Fill(off int, p []byte) error {
	vec.EncodeBF16(p, c[off/2:][:len(p)/2])
	return nil
}

func (c toHalf) Take(off int, p []byte) error {
	vec.AddBF16(c[off/2:][:len(p)/2], p)
	return nil
}

// BenchmarkOverlap sends 64 MiB of float32 as 16 bits each over a link shaped to 1 GB/s in real time, and reports how
// much longer it took than the larger of the codec alone and the wire alone.
func BenchmarkOverlap(b *testing.B) {
	const wire = 1e9
	src, dst := make(toHalf, 16<<20), make(toHalf, 16<<20)
	for i := range src {
		src[i] = float32(i % 1000)
	}
	ends := overShapedLink(b, p2ptest.Shape{Bandwidth: wire}, p2p.Policy{})
	alone := codecAlone(src, dst)
	slowest := max(float64(src.Len())/wire, alone.encode, alone.apply)
	b.SetBytes(int64(src.Len()))
	id := uint64(0)
	for b.Loop() {
		id++
		out, in := ends[0].SendFrom(id, src), ends[1].ReceiveInto(id, p2p.Push, dst)
		<-in.Done()
		<-out.Done()
		if in.Err() != nil || out.Err() != nil {
			b.Fatal(in.Err(), out.Err())
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/slowest, "x-slowest")
	b.ReportMetric(alone.encode*1e3, "encode-ms")
	b.ReportMetric(alone.apply*1e3, "apply-ms")
}
