package sockets_test

import (
	"net"
	"strings"
	"testing"

	"hcclps/p2p/sockets"
)

// loopback is the name of the loopback interface.
func loopback(t *testing.T) string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	t.Skip("no loopback interface")
	return ""
}

func TestResolve(t *testing.T) {
	lo := loopback(t)
	for _, test := range []struct{ addr, want, err string }{
		{"127.0.0.1:7000", "127.0.0.1:7000", ""},
		{"[::1]:7000", "[::1]:7000", ""},
		{"0.0.0.0:7000", "0.0.0.0:7000", ""},
		{":7000", ":7000", ""},
		{"node5.example:7000", "node5.example:7000", ""},
		{"unix:/run/s.sock", "unix:/run/s.sock", ""},
		{lo + ":7000", "127.0.0.1:7000", ""},
		{"127.0.0.0/8:0", "127.0.0.1:0", ""},
		{"233.252.0.0/24:7000", "", lo},
		{"0.0.0.0/33:7000", "0.0.0.0/33:7000", ""}, // a strange name of a host
		{"7000", "", "INTERFACE:PORT"},
		{"", "", "INTERFACE:PORT"},
	} {
		got, err := sockets.Resolve(test.addr)
		if got != test.want || (test.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: %q, %v, want %q, %q", test.addr, got, err, test.want, test.err)
		}
	}
}

func TestListenAtAnInterface(t *testing.T) {
	l, err := sockets.Network{}.Listen(t.Context(), loopback(t)+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Addr().String(); !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("listens at %s", got)
	}
}
