package doctor

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// checkHostNetwork says which interface HCCL would meet the other hosts on, and whether its ports are free.
func checkHostNetwork(_ context.Context, p *patient) []Finding {
	ifs, err := p.Network.Interfaces()
	if err != nil {
		return []Finding{found(Warn, fmt.Sprintf("the interfaces of this host cannot be listed: %v", err), "")}
	}
	var out []Finding
	var names []string
	for _, i := range ifs {
		if i.Up && len(i.Addrs) > 0 {
			names = append(names, fmt.Sprintf("%s %v%s", i.Name, i.Addrs, p.speed(i.Name)))
		}
	}
	out = append(append(out, good("interfaces that are up: %s", strings.Join(names, ", "))), p.socketBuffers()...)
	if !p.cann.usable() && !p.hasVariable("HCCL_IF_IP") && !p.hasVariable("HCCL_SOCKET_IFNAME") {
		return out
	}
	return append(append(out, p.interfaceOfHCCL(ifs)), p.portsOfHCCL()...)
}

// speed is what an interface says of itself, where it does.
func (p *patient) speed(name string) string {
	if strings.ContainsAny(name, "/.") {
		return ""
	}
	b, err := fs.ReadFile(p.Root, "sys/class/net/"+name+"/speed")
	if mbit, aerr := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && aerr == nil && mbit > 0 {
		return fmt.Sprintf(" %g Gbit/s", float64(mbit)/1000)
	}
	return ""
}

// leastBuffer keeps a connection of 10 GB/s busy over 400 us; kernels allow as much by default.
const leastBuffer = 4 << 20

// socketBuffers checks how far the kernel may grow the buffers of a TCP connection.
func (p *patient) socketBuffers() []Finding {
	var out []Finding
	for _, name := range []string{"tcp_rmem", "tcp_wmem"} {
		b, err := fs.ReadFile(p.Root, "proc/sys/net/ipv4/"+name)
		if err != nil {
			continue
		}
		var least, first, most int64
		if n, err := fmt.Sscan(string(b), &least, &first, &most); n == 3 && err == nil && most < leastBuffer {
			out = append(out, found(Warn, fmt.Sprintf("net.ipv4.%s lets a connection have %s: too little for fast links between hosts", name, size(most)), fmt.Sprintf("sysctl -w net.ipv4.%s='%d %d %d'", name, least, first, 4*leastBuffer)))
		}
	}
	return out
}

func (p *patient) hasVariable(name string) bool { return p.vars[name] != "" }

// interfaceOfHCCL follows HCCL's choice of an interface for its root server.
func (p *patient) interfaceOfHCCL(ifs []Interface) Finding {
	if ip := p.vars["HCCL_IF_IP"]; ip != "" {
		a, err := netip.ParseAddr(ip)
		has := slices.ContainsFunc(ifs, func(i Interface) bool { return i.Up && slices.Contains(i.Addrs, a) })
		if err != nil || !has {
			return found(p.ifHCCL(Fail), "HCCL_IF_IP="+ip+" is no address of this host", "use an address that the other hosts reach, another one on each host")
		}
		return good("HCCL meets the others at %s (HCCL_IF_IP)", ip)
	}
	family := p.vars["HCCL_SOCKET_FAMILY"]
	spec := p.vars["HCCL_SOCKET_IFNAME"]
	i, addr, ok := pickInterface(ifs, spec, family)
	switch {
	case !ok && spec != "":
		return found(p.ifHCCL(Fail), "HCCL_SOCKET_IFNAME="+spec+": no interface that is up matches (EI0001, EI0015)", "name one of the interfaces above; = in front means the exact name, ^ all but")
	case !ok:
		return found(p.ifHCCL(Warn), "HCCL finds no interface that is up", "set HCCL_IF_IP")
	case addr.IsLoopback() || strings.HasPrefix(i.Name, "docker"):
		return found(Warn, fmt.Sprintf("HCCL would meet the others at %s (%v), which other hosts do not reach (EI0015)", i.Name, addr), "set HCCL_IF_IP to the address of this host that they reach")
	case spec == "":
		return good("HCCL meets the others at %s (%v), its own choice; HCCL_IF_IP says it for sure", i.Name, addr)
	default:
		return good("HCCL meets the others at %s (%v)", i.Name, addr)
	}
}

// pickInterface is the interface and address that HCCL uses: of those that are up, by name ascending with docker* and then lo* last, the first that
// spec allows. spec is a list of prefixes, of exact names behind "=", of what not to use behind "^" or "^=".
func pickInterface(ifs []Interface, spec, family string) (Interface, netip.Addr, bool) {
	rank := func(name string) int {
		switch {
		case strings.HasPrefix(name, "lo"):
			return 2
		case strings.HasPrefix(name, "docker"):
			return 1
		default:
			return 0
		}
	}
	ifs = slices.SortedFunc(slices.Values(ifs), func(a, b Interface) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for _, i := range ifs {
		if !i.Up || !allowed(i.Name, spec) {
			continue
		}
		for _, a := range i.Addrs {
			if a.Is6() == strings.EqualFold(family, "AF_INET6") && !a.IsLinkLocalUnicast() {
				return i, a, true
			}
		}
	}
	return Interface{}, netip.Addr{}, false
}

func allowed(name, spec string) bool {
	if spec == "" {
		return true
	}
	list, not := strings.CutPrefix(spec, "^")
	list, exact := strings.CutPrefix(list, "=")
	matches := slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
		if exact {
			return name == s
		}
		return strings.HasPrefix(name, s)
	})
	return matches != not
}

const (
	hcclBasePort = 60000
	hcclPorts    = 32
)

// portsOfHCCL checks the ports that a root server binds.
func (p *patient) portsOfHCCL() []Finding {
	if p.hasVariable("HCCL_HOST_SOCKET_PORT_RANGE") {
		return nil
	}
	base := hcclBasePort
	if n, err := strconv.Atoi(p.vars["HCCL_IF_BASE_PORT"]); err == nil {
		base = n
	}
	last := base + hcclPorts - 1
	var out []Finding
	var taken []string
	for _, port := range p.listening() {
		if port >= base && port <= last {
			taken = append(taken, strconv.Itoa(port))
		}
	}
	if len(taken) > 0 {
		out = append(out, found(Warn, fmt.Sprintf("ports %s of %d to %d, which HCCL uses, are taken (EI0019)", strings.Join(taken, ", "), base, last), "end the process that has them, or set HCCL_IF_BASE_PORT to the first of 32 free ports"))
	}
	var low, high int
	if b, err := fs.ReadFile(p.Root, "proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(b), &low, &high); err != nil {
			low, high = 0, 0
		}
	}
	b, err := fs.ReadFile(p.Root, "proc/sys/net/ipv4/ip_local_reserved_ports")
	reserved := err == nil && covers(strings.TrimSpace(string(b)), base, last)
	if base <= high && last >= low && !reserved {
		out = append(out, found(Warn, fmt.Sprintf("the kernel hands out ports %d to %d to any program, among them those of HCCL, %d to %d (EI0019)", low, high, base, last), fmt.Sprintf("sysctl -w net.ipv4.ip_local_reserved_ports=%d-%d", base, last)))
	}
	return out
}

// listening are the TCP ports of this host that someone listens at.
func (p *patient) listening() []int {
	const listen = "0A"
	var out []int
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		b, err := fs.ReadFile(p.Root, name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != listen {
				continue
			}
			_, port, _ := strings.Cut(f[1], ":")
			if b, err := hex.DecodeString(port); err == nil && len(b) == 2 {
				out = append(out, int(b[0])<<8|int(b[1]))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// covers says whether a list such as "8080,60000-60031" has all ports from first to last.
func covers(list string, first, last int) bool {
	have := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		a, b, ranged := strings.Cut(part, "-")
		if !ranged {
			b = a
		}
		from, err1 := strconv.ParseUint(a, 10, 16)
		to, err2 := strconv.ParseUint(b, 10, 16)
		if err1 != nil || err2 != nil {
			continue
		}
		for port := max(int(from), first); port <= min(int(to), last); port++ {
			have[port] = true
		}
	}
	return len(have) == last-first+1
}
