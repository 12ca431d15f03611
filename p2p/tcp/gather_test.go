package tcp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
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

// touching is a socket whose writers are seen to read until they return: the race detector learns nothing of what the kernel reads. One that
// failed reads until told is over, which is when the reader has failed too, if not before.
type touching struct {
	net.Conn
	told <-chan struct{}
	tell func()
}

func touch(conn net.Conn) *touching {
	told := make(chan struct{})
	return &touching{conn, told, sync.OnceFunc(func() { close(told) })}
}

func (c *touching) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.tell()
	}
	return n, err
}

func (c *touching) WriteBuffers(vectors net.Buffers) (int, error) {
	places := slices.Clone(vectors) // WriteTo empties the list
	n, err := vectors.WriteTo(c.Conn)
	if err != nil {
		<-c.told
	}
	for _, p := range places {
		_ = bytes.Clone(p)
	}
	return int(n), err
}

// When a gathered message has ended its places are the caller's again, whichever side closed in the middle of it: nothing reads them, and what
// they become does not arrive.
func TestNothingReadsPlacesOfAMessageThatEnded(t *testing.T) {
	t.Parallel() // all wait for Comms that end
	for _, stripes := range []int{1, 2} {
		for closer, want := range []error{p2p.ErrClosed, p2p.ErrPeer} {
			t.Run(fmt.Sprintf("rank %d of %d stripes", closer, stripes), func(t *testing.T) {
				t.Parallel()
				closeWhileGathered(t, stripes, closer, want)
			})
		}
	}
}

func closeWhileGathered(t *testing.T, stripes, closer int, want error) {
	t.Helper()
	const size, place, before, after = 3 << 20, 48 << 10, 1, 0xff
	a, b := connected(t, sockets.Network{}, "127.0.0.1:0", stripes)
	peer := make([]*p2ptest.Halting, stripes)
	for k := range b { // a piece is more than the kernel has room for
		if err := errors.Join(a[k].(bufferedSocket).SetWriteBuffer(16<<10), b[k].(bufferedSocket).SetReadBuffer(16<<10)); err != nil {
			t.Fatal(err)
		}
		peer[k] = p2ptest.NewHalting(b[k], 10_000)
		b[k] = peer[k]
	}
	for k := range a {
		c := touch(a[k])
		if a[k] = c; closer == 0 {
			c.tell() // its reader goes on until its writers have ended
		}
	}
	comms := run(t, tcp.Config{Checksum: tcp.ChecksumOn}, a, b)
	var places [][]byte
	for range size / place {
		places = append(places, bytes.Repeat([]byte{before}, place))
	}
	got := make([]byte, size)
	recv := comms[1].Irecv(0, p2p.Bytes(got))
	send := comms[0].(p2p.Gatherer).IsendGathered(1, append([][]byte(nil), places...))
	for _, p := range peer {
		await(t, p.Halted()) // its writer is in the middle of a piece
	}
	if err := comms[closer].Close(); err != nil {
		t.Fatal(err)
	}
	await(t, send.Done())
	for _, p := range places {
		for i := range p {
			p[i] = after
		}
	}
	for _, p := range peer {
		p.GoOn()
	}
	if err := send.Wait(t.Context()); !errors.Is(err, want) {
		t.Errorf("send: %v, want %v", err, want)
	}
	await(t, recv.Done())
	if err := recv.Wait(t.Context()); err == nil {
		t.Error("it arrived whole")
	}
	if i := bytes.IndexByte(got, after); i >= 0 {
		t.Errorf("byte %d was written to the connection after the send had ended", i)
	}
}

// bufferedSocket is a connection whose memory in the kernel can be bounded.
type bufferedSocket interface {
	SetReadBuffer(n int) error
	SetWriteBuffer(n int) error
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}
