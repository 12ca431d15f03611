package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"hcclps/p2p/link"
	"hcclps/p2p/sockets"
)

// slowTrip is a round trip above which a cluster works, but steps wait for the network.
const slowTrip = 20 * time.Millisecond

// skewed is a difference of clocks from which on logs of two hosts are hard to read side by side.
const skewed = 500 * time.Millisecond

// answer is what came of asking a server.
type answer struct {
	addr string
	Server
	err error
}

// ask asks all these addresses at once, each within the patience.
func (p *patient) ask(ctx context.Context, addrs []string) []answer {
	out := make([]answer, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, p.Patience)
			defer cancel()
			s, err := p.Peers.Ask(ctx, addr)
			out[i] = answer{addr, s, err}
		})
	}
	wg.Wait()
	return out
}

// checkServers asks every server of the cluster: does it answer, in which cluster, how fast?
func checkServers(ctx context.Context, p *patient) []Finding {
	if len(p.Servers) == 0 {
		return []Finding{good("no server is named (--servers): none was asked")}
	}
	var out []Finding
	at := map[string]string{}
	versions := map[string][]string{}
	for _, a := range p.ask(ctx, p.Servers) {
		if a.err != nil {
			out = append(out, unreachable(a))
			continue
		}
		what := fmt.Sprintf("%s is server %s, version %s, round trip %v", a.addr, a.Name, a.Version, a.Trip.Round(time.Microsecond))
		if a.Trip > slowTrip {
			out = append(out, found(Warn, what+": every step waits for that", "use servers nearer to the workers; see that the address is not that of a detour"))
		} else {
			out = append(out, good("%s", what))
		}
		if skew := a.Ahead.Abs() - a.Trip; skew > skewed {
			out = append(out, found(Warn, fmt.Sprintf("the clock of %s differs from this host's by %v: their logs do not line up", a.Name, a.Ahead.Abs().Round(time.Millisecond)), "run chrony or systemd-timesyncd on both"))
		}
		if other := at[a.Name]; other != "" {
			out = append(out, found(Warn, fmt.Sprintf("%s and %s are the same server, %s", other, a.addr, a.Name), "name every server once"))
			continue
		}
		at[a.Name] = a.addr
		versions[a.Version] = append(versions[a.Version], a.Name)
	}
	if len(versions) > 1 {
		var said []string
		for v, names := range versions {
			slices.Sort(names)
			said = append(said, v+" on "+strings.Join(names, ", "))
		}
		slices.Sort(said)
		out = append(out, found(Warn, "the servers run different versions: "+strings.Join(said, "; "), "finish the upgrade"))
	}
	return out
}

// unreachable says why a server did not answer and what to do about that cause.
func unreachable(a answer) Finding {
	what := fmt.Sprintf("%s does not answer: %v", a.addr, a.err)
	var dns *net.DNSError
	var addr *net.AddrError
	switch {
	case errors.Is(a.err, link.ErrWrongCluster):
		return found(Fail, what, "give the name of that cluster (--cluster), or the address of a server of this one")
	case errors.Is(a.err, link.ErrVersion):
		return found(Fail, what, "run the same release on both")
	case errors.Is(a.err, sockets.ErrRefused):
		return found(Fail, what, "give the certificates (--tls-cert, --tls-key, --tls-ca) and the token (--token-file) of that cluster, or leave them out where it has none")
	case errors.As(a.err, &dns):
		return found(Fail, what, "correct the name, or the resolver of this host (/etc/resolv.conf, /etc/hosts)")
	case errors.As(a.err, &addr):
		return found(Fail, what, "write HOST:PORT, or unix:/PATH")
	case errors.Is(a.err, syscall.ECONNREFUSED), errors.Is(a.err, syscall.ENOENT):
		return found(Fail, what, "nothing listens there: start ps-server, or see that it listens on an address others reach (--listen) and not on loopback")
	case errors.Is(a.err, syscall.EHOSTUNREACH), errors.Is(a.err, syscall.ENETUNREACH):
		return found(Fail, what, "there is no route: see the address and the routes of this host (ip route get ...)")
	case errors.Is(a.err, syscall.EACCES), errors.Is(a.err, syscall.EPERM):
		return found(Fail, what, "this user may not: a firewall, or the owner of the socket's folder")
	default:
		return found(Fail, what, "a firewall may drop the packets, or the server hangs: ps-server status --servers "+a.addr+" from its own host tells them apart")
	}
}

// checkListen opens the address a server is to listen at.
func checkListen(ctx context.Context, p *patient) []Finding {
	if p.Listen == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	err := p.Network.Listen(ctx, p.Listen)
	switch {
	case err == nil:
		return append([]Finding{good("%s is free to listen at", p.Listen)}, p.advertised()...)
	case errors.Is(err, syscall.EADDRINUSE):
		if a := p.ask(ctx, []string{p.Listen})[0]; a.err == nil {
			return []Finding{good("server %s of this cluster listens at %s", a.Name, p.Listen)}
		}
		return []Finding{found(Fail, p.Listen+" is taken by another program", "end it (ss -ltnp shows it), or use another --listen")}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return []Finding{found(Fail, p.Listen+" is no address of this host", "listen at one of its own (see host network) or at 0.0.0.0; --advertise says what others dial")}
	case errors.Is(err, syscall.EACCES):
		return []Finding{found(Fail, p.Listen+": this user may not listen there", "use a port above 1023, or a folder this user may write")}
	default:
		return []Finding{found(Fail, fmt.Sprintf("cannot listen at %s: %v", p.Listen, err), "write HOST:PORT, or unix:/PATH")}
	}
}

// advertised warns of an address that others cannot dial.
func (p *patient) advertised() []Finding {
	addr := p.Advertise
	if addr == "" {
		addr = p.Listen
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil || strings.HasPrefix(addr, "unix:") {
		return nil
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return []Finding{found(Fail, addr+" is what the others are told to dial: it is no address of a host", "give --advertise HOST:PORT as the others reach this server")}
	}
	return nil
}
