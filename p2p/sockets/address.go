package sockets

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Resolve puts an address in the place of an interface's name or a CIDR: "eth0:7001" is the first address of eth0, an IPv4 one if there
// is one; "10.0.0.0/8:7001" the first address of this host in that network, an error if several interfaces have one. Every other address is
// returned as it is, unix:/path too.
func Resolve(addr string) (string, error) {
	if strings.HasPrefix(addr, "unix:") {
		return addr, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: want HOST:PORT, INTERFACE:PORT, NETWORK/BITS:PORT or unix:/PATH: %w", addr, err)
	}
	if network, err := netip.ParsePrefix(host); err == nil {
		return within(network, port)
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return addr, nil
	}
	i, err := net.InterfaceByName(host)
	if err != nil {
		return addr, nil //nolint:nilerr // no interface: a host's name
	}
	ip, err := first(i, func(netip.Addr) bool { return true })
	if err != nil || !ip.IsValid() {
		return "", fmt.Errorf("address %q: interface %s has no address (%v): give it one, or name another", addr, host, i.Flags)
	}
	return net.JoinHostPort(ip.String(), port), nil
}

// within finds the one interface with an address in network.
func within(network netip.Prefix, port string) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("find an address in %s: %w", network, err)
	}
	var found netip.Addr
	var where string
	var others []string
	for _, i := range all {
		ip, err := first(&i, network.Masked().Contains)
		switch {
		case err != nil:
			return "", fmt.Errorf("find an address in %s: %w", network, err)
		case ip.IsValid() && found.IsValid():
			return "", fmt.Errorf("find an address in %s: %s on %s and %s on %s are: name the interface, or a smaller network", network, found, where, ip, i.Name)
		case ip.IsValid():
			found, where = ip, i.Name
		default:
			others = append(others, i.Name)
		}
	}
	if !found.IsValid() {
		return "", fmt.Errorf("find an address in %s: no interface of this host has one (%s)", network, strings.Join(others, ", "))
	}
	return net.JoinHostPort(found.String(), port), nil
}

// first is the first address of an interface that is wanted, IPv4 before IPv6; the zero Addr if there is none.
func first(i *net.Interface, wanted func(netip.Addr) bool) (netip.Addr, error) {
	addrs, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list addresses of interface %s: %w", i.Name, err)
	}
	var six netip.Addr
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !wanted(p.Addr().Unmap()) {
			continue
		}
		ip := p.Addr().Unmap()
		if ip.Is4() {
			return ip, nil
		}
		if ip.IsLinkLocalUnicast() {
			ip = ip.WithZone(i.Name)
		}
		if !six.IsValid() {
			six = ip
		}
	}
	return six, nil
}
