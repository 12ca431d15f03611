package tcp

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection within the host is not paced, whatever the system does by default.
func TestNoPacingWithinTheHost(t *testing.T) {
	all, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	if err != nil {
		t.Skipf("no congestion control to choose: %v", err)
	}
	other := slices.DeleteFunc(strings.Fields(string(all)), func(name string) bool { return slices.Contains(unpaced(), name) })
	if len(other) == 0 {
		t.Skip("this system has no congestion control but cubic and reno")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	use := func(name string) (now string) {
		err := raw.Control(func(fd uintptr) {
			if name != "" {
				if err := unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
					t.Errorf("use %s: %v", name, err)
				}
			}
			now, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimRight(now, "\x00")
	}
	if now := use(other[0]); now != other[0] {
		t.Skipf("the system uses %s in place of %s", now, other[0])
	}
	c := Pair([]net.Conn{conn}, 0)
	defer c.Close()
	if now := use(""); !slices.Contains(unpaced(), now) {
		t.Errorf("the pair goes by %s", now)
	}
}

// What is not within the host, or no TCP, is left alone.
func TestWhatIsWithinTheHost(t *testing.T) {
	for _, test := range []struct {
		here, there string
		want        bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"::1", "::1", true},
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.4", false},
	} {
		c := addressed{here: &net.TCPAddr{IP: net.ParseIP(test.here)}, there: &net.TCPAddr{IP: net.ParseIP(test.there)}}
		if got := within(c); got != test.want {
			t.Errorf("from %s to %s: within the host %v", test.here, test.there, got)
		}
	}
	if within(addressed{here: &net.UnixAddr{}, there: &net.UnixAddr{}}) {
		t.Error("a Unix socket passes for TCP")
	}
}

type addressed struct {
	net.Conn
	here, there net.Addr
}

func (c addressed) LocalAddr() net.Addr  { return c.here }
func (c addressed) RemoteAddr() net.Addr { return c.there }
