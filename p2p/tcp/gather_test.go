package tcp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/sockets"
	"hcclps/p2p/tcp"
)

// Messages of all lengths, whose places are of all sizes, arrive as one.
func TestGatheredMessagesArrive(t *testing.T) {
	for name, ends := range kinds(t, 2) {
		for _, checksum := range []tcp.Checksum{tcp.ChecksumOn, tcp.ChecksumOff} {
			t.Run(fmt.Sprintf("%s/%d", name, checksum), func(t *testing.T) {
				a, b := ends()
				comms := run(t, tcp.Config{Checksum: checksum}, a, b)
				gatherer, ok := comms[0].(p2p.Gatherer)
				if !ok {
					t.Fatal("it does not gather")
				}
				gatherAll(t, gatherer, comms[1])
			})
		}
	}
}

func gatherAll(t *testing.T, from p2p.Gatherer, to p2p.Comm) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 1000, 32 << 10, 40_001, 128<<10 + 1, 1<<20 + 3, 3 << 20} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		places := [][]byte{}
		for rest := want; len(rest) > 0; {
			n := min(1+r.IntN(1+size/20), len(rest))
			places, rest = append(places, rest[:n]), rest[n:]
		}
		got := make([]byte, size)
		recv := to.Irecv(0, p2p.Bytes(got))
		send := from.IsendGathered(1, places)
		if err := errors.Join(recv.Wait(t.Context()), send.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes in %d places: other bytes came", size, len(places))
		}
	}
}

func TestOnlySocketsGather(t *testing.T) {
	plain, _ := connected(t, sockets.Network{}, "127.0.0.1:0", 2)
	tls, _ := connected(t, secured(t), "127.0.0.1:0", 1)
	pipe, _ := pipes(1)
	for _, c := range []struct {
		what string
		comm *tcp.Comm
		want bool
	}{
		{"sockets", tcp.Pair(plain, 0), true},
		{"TLS", tcp.Pair(tls, 0), false},
		{"a pipe", tcp.Pair(pipe, 0), false},
	} {
		if got := c.comm.Gathers(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
