package backend_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
)

var _ link.PairFunc = backend.Pair

func TestPairOverNetwork(t *testing.T) {
	network, err := backend.Network("tcp")
	if err != nil {
		t.Fatal(err)
	}
	l, err := network.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := network.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var comms []link.Comm
	ended := make(chan error, 2)
	for rank, conn := range []net.Conn{client, server} {
		c, err := backend.Pair(t.Context(), []net.Conn{conn}, rank)
		if err != nil {
			t.Fatal(err)
		}
		comms = append(comms, c)
		go func() { ended <- c.Run(t.Context()) }()
	}
	got := make([]byte, 3)
	recv := comms[1].Irecv(0, p2p.Bytes(got))
	if err := p2p.Send(t.Context(), comms[0], 1, p2p.Bytes([]byte("abc"))); err != nil {
		t.Error(err)
	}
	if err := recv.Wait(t.Context()); err != nil || string(got) != "abc" {
		t.Errorf("received %q: %v", got, err)
	}
	for _, c := range comms {
		_ = c.Close()
	}
	for range comms {
		if err := <-ended; err != nil && !errors.Is(err, p2p.ErrPeer) { // the other side may have closed first
			t.Errorf("run: %v", err)
		}
	}
}

func TestUnknownNetwork(t *testing.T) {
	if _, err := backend.Network("pigeon"); err == nil || !strings.Contains(err.Error(), "pigeon") {
		t.Errorf("unknown network: %v", err)
	}
}
