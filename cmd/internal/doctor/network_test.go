package doctor

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestPickInterface(t *testing.T) {
	face := func(name, addr string) Interface {
		return Interface{Name: name, Up: true, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}
	}
	down := face("aaa0", "10.9.9.9")
	down.Up = false
	both := Interface{Name: "bond0", Up: true, Addrs: []netip.Addr{netip.MustParseAddr("fe80::1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}
	ifs := []Interface{face("lo", "127.0.0.1"), face("docker0", "172.17.0.1"), face("eth1", "10.0.0.3"), face("eth10", "10.0.0.4"), both, down}
	for _, c := range []struct{ spec, family, want string }{
		{"", "", "bond0 10.0.0.1"},
		{"", "AF_INET6", "bond0 fd00::1"},
		{"eth", "", "eth1 10.0.0.3"},
		{"eth10", "", "eth10 10.0.0.4"},
		{"=eth", "", ""},
		{"=eth10,eth1", "", "eth1 10.0.0.3"},
		{"^bond,eth", "", "docker0 172.17.0.1"},
		{"^=bond0,eth1", "", "eth10 10.0.0.4"},
		{"lo", "", "lo 127.0.0.1"},
		{"aaa", "", ""},
		{"ib", "", ""},
	} {
		got := ""
		if i, a, ok := pickInterface(ifs, c.spec, c.family); ok {
			got = fmt.Sprintf("%s %v", i.Name, a)
		}
		if got != c.want {
			t.Errorf("HCCL_SOCKET_IFNAME=%q, family %q: picked %q, want %q", c.spec, c.family, got, c.want)
		}
	}
}

func TestInterfaceOfHCCL(t *testing.T) {
	for _, c := range []struct {
		env   []string
		keep  int // interfaces of the host
		level Level
		says  string
	}{
		{[]string{"HCCL_IF_IP=10.0.0.5"}, 2, OK, "10.0.0.5"},
		{[]string{"HCCL_IF_IP=10.0.0.6"}, 2, Fail, "no address of this host"},
		{[]string{"HCCL_SOCKET_IFNAME=ib"}, 2, Fail, "no interface that is up matches"},
		{[]string{"HCCL_SOCKET_IFNAME=eth"}, 2, OK, "eth0"},
		{nil, 2, OK, "its own choice"},
		{nil, 1, Warn, "other hosts do not reach"},
		{nil, 0, Warn, "no interface that is up"},
	} {
		m := healthy()
		m.withCANN()
		m.env, m.ifs = append(m.env, c.env...), m.ifs[:c.keep]
		m.examine(t, Options{}).want(t, "host network", c.level, c.says)
	}
}

func TestPortsOfHCCL(t *testing.T) {
	// 60001 (EA61) is listened at, 60002 (EA62) is a connection.
	const table = "  sl  local_address rem_address   st tx_queue rx_queue\n" +
		"   0: 00000000:EA61 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n" +
		"   1: 0100007F:EA62 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 1 1\n" +
		"   2: zz\n"
	m := healthy()
	m.withCANN()
	m.file("/proc/net/tcp", []byte(table))
	m.file("/proc/net/tcp6", []byte(table))
	m.file("/proc/sys/net/ipv4/ip_local_port_range", []byte("32768\t60999\n"))
	m.file("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte("8080,60000-60030\n"))
	r := m.examine(t, Options{})
	r.want(t, "host network", Warn, "ports 60001 of 60000 to 60031", "HCCL_IF_BASE_PORT")
	r.want(t, "host network", Warn, "hands out ports", "60000-60031")
	m.file("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte("60000-60020,60021-60031\n"))
	m.file("/proc/net/tcp", nil)
	m.file("/proc/net/tcp6", nil)
	if r = m.examine(t, Options{}); r.count(Warn) > 0 {
		t.Errorf("ports are free and reserved: %+v", r.about("host network"))
	}
	m.env = append(m.env, "HCCL_IF_BASE_PORT=50000")
	m.examine(t, Options{}).want(t, "host network", Warn, "50000 to 50031")
}

func TestWhitelist(t *testing.T) {
	for name, c := range map[string]struct {
		env   []string
		file  string
		level Level
		says  string
	}{
		"no file":   {[]string{"HCCL_WHITELIST_DISABLE=0"}, "", Fail, "without HCCL_WHITELIST_FILE"},
		"unread":    {[]string{"HCCL_WHITELIST_FILE=/w.json"}, "{}", Warn, "no effect"},
		"missing":   {[]string{"HCCL_WHITELIST_DISABLE=0", "HCCL_WHITELIST_FILE=/other.json"}, "{}", Fail, "cannot be read"},
		"malformed": {[]string{"HCCL_WHITELIST_DISABLE=0", "HCCL_WHITELIST_FILE=/w.json"}, `{"host_ip":["a"]}`, Fail, "host_ip"},
		"empty":     {[]string{"HCCL_WHITELIST_DISABLE=0", "HCCL_WHITELIST_FILE=/w.json"}, `{"host_ip":[]}`, Fail, "host_ip"},
		"a server":  {[]string{"HCCL_WHITELIST_DISABLE=0", "HCCL_WHITELIST_FILE=/w.json"}, `{"host_ip":["10.0.0.5"]}`, Warn, "lacks 10.0.0.6"},
		"good":      {[]string{"HCCL_WHITELIST_DISABLE=0", "HCCL_WHITELIST_FILE=/w.json"}, `{"host_ip":["10.0.0.5","10.0.0.6"],"device_ip":[]}`, OK, "2 hosts"},
	} {
		m := healthy()
		m.withCANN()
		m.env = append(m.env, c.env...)
		m.file("/w.json", []byte(c.file))
		m.servers = map[string]Server{"10.0.0.5:7000": {Name: "s1"}, "10.0.0.6:7000": {Name: "s2"}}
		r := m.examine(t, Options{Servers: []string{"10.0.0.5:7000", "10.0.0.6:7000"}})
		if r.want(t, "whitelist", c.level, c.says); t.Failed() {
			t.Fatalf("in case %q", name)
		}
	}
}

func TestLinksOfTheHost(t *testing.T) {
	m := healthy()
	m.file("/sys/class/net/eth0/speed", []byte("25000\n"))
	m.file("/sys/class/net/lo/speed", []byte("-1\n"))
	m.file("/proc/sys/net/ipv4/tcp_rmem", []byte("4096 131072 6291456\n"))
	m.file("/proc/sys/net/ipv4/tcp_wmem", []byte("4096 16384 212992\n"))
	r := m.examine(t, Options{})
	r.want(t, "host network", OK, "lo [127.0.0.1], eth0 [10.0.0.5] 25 Gbit/s")
	r.want(t, "host network", Warn, "net.ipv4.tcp_wmem", "208 KiB", "'4096 16384 16777216'")
	if n := r.count(Warn); n != 1 {
		t.Errorf("%d warnings of one buffer: %+v", n, r.about("host network"))
	}
}

func TestWhatSharedMemoryNeeds(t *testing.T) {
	m := healthy()
	m.broken = map[string]error{vmRead: errPlanted}
	m.file("/proc/sys/kernel/yama/ptrace_scope", []byte("1\n"))
	r := m.examine(t, Options{Transport: "shm"})
	r.want(t, "shared memory", OK, vmRead, "nothing needs")
	r.want(t, "shared memory", OK, "Yama", "no harm")
	delete(m.files, "proc/self/fd")
	m.examine(t, Options{}).want(t, "shared memory", Warn, "/proc is not mounted")
}
