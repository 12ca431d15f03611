package sockets

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// FreePort is a port of loopback at which nobody listens, for a process that is to be started. It is outside of those that the system gives by itself to who
// dials or listens at port 0, so nobody gets it by chance in the meantime.
func FreePort() (int, error) {
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
		port := lowest + rand.IntN(beyond-lowest)
		ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			return port, ln.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port between %d and %d: %w", lowest, beyond, last)
}
