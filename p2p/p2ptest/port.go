package p2ptest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

// FreeAddr is an address of loopback at which nobody listens, for a process that is to be started. Its port is outside of those that the system gives
// by itself to who dials or listens at port 0, so nobody gets it by chance in the meantime.
func FreeAddr(t testing.TB) *net.TCPAddr {
	t.Helper()
	const lowest, tries = 10_000, 100
	beyond := 32_768
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(b), &beyond)
	}
	if beyond <= lowest {
		beyond = 32_768
	}
	var last error
	for range tries {
		at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: lowest + rand.IntN(beyond-lowest)}
		l, err := net.ListenTCP("tcp4", at)
		if err == nil {
			_ = l.Close()
			return at
		}
		last = err
	}
	t.Fatalf("find a free port between %d and %d: %v", lowest, beyond, last)
	return nil
}
