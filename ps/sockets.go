package ps

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/restore"
)

// What a server does about sockets and their protection, on the default Network.

// absolute makes paths of files good for a later start from another folder.
func (c Config) absolute() (Config, error) {
	var errs []error
	for _, path := range []*string{&c.TLSCert, &c.TLSKey, &c.TLSCA, &c.TokenFile, &c.Checkpoint.Dir} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		*path = abs
		errs = append(errs, err)
	}
	if c.Restore != "" {
		from, err := restore.ParseSource(c.Restore)
		c.Restore, errs = from.String(), append(errs, err)
	}
	return c, errors.Join(errs...)
}

// advertised is the address others dial, "" if nothing is said of it yet.
func (c Config) advertised() string {
	addr := def(c.Advertise, c.Listen)
	if !c.sockets || addr == "" {
		return addr
	}
	if at, err := backend.ResolveAddress(addr); err == nil {
		return at
	}
	return addr // reachable says why
}

// reachable settles the address others dial, and refuses to listen where others
// can reach a server that asks nobody who he is.
func (c Config) reachable() (Config, error) {
	listen := def(c.Listen, DefaultListen)
	if !c.sockets || strings.HasPrefix(listen, "unix:") {
		return c, nil
	}
	at, err := backend.ResolveAddress(listen)
	if err != nil {
		return c, fmt.Errorf("address to listen on (Listen, --listen): %w", err)
	}
	var errs []error
	if c.Advertise, err = backend.ResolveAddress(def(c.Advertise, at)); err != nil {
		errs = append(errs, fmt.Errorf("address others dial (Advertise, --advertise): %w", err))
	} else if unspecified(c.Advertise) {
		errs = append(errs, fmt.Errorf("address others dial (Advertise, --advertise; default Listen, --listen) %s is none that others can dial: say one of this host", c.Advertise))
	}
	if !c.Insecure && c.TLSCert == "" && c.TokenFile == "" && !loopback(at) {
		errs = append(errs, exposed(listen))
	}
	if c.Restore != "" {
		from, err := restore.ParseSource(c.Restore)
		c.Restore, errs = from.String(), append(errs, err)
	}
	return c, errors.Join(errs...)
}

func exposed(listen string) error {
	return fmt.Errorf("address to listen on (Listen, --listen) %s is not loopback, and connections are neither encrypted nor authenticated: give certificates (--tls-cert, --tls-key, --tls-ca; ps-server certs makes them) or a token (--token-file), or say Insecure (--insecure) if the network is trusted", listen)
}

func (c Config) openSockets() (link.Network, error) {
	return backend.OpenSockets(backend.Sockets{
		TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSCA: c.TLSCA, TokenFile: c.TokenFile, Local: c.Cluster, Logger: c.Logger,
	})
}

// unspecified says whether addr means every address of this host.
func unspecified(addr string) bool {
	h := host(addr)
	ip, err := netip.ParseAddr(h)
	return h == "" || err == nil && ip.IsUnspecified()
}

func loopback(addr string) bool {
	h := host(addr)
	ip, err := netip.ParseAddr(h)
	return h == "localhost" || err == nil && ip.IsLoopback()
}

// sameHost says whether a connection from addr is one within this host.
func (c Config) sameHost(addr string) bool {
	return addr == "" || addr[0] == '@' || addr[0] == '/' || host(addr) == host(c.Advertise)
}

// locals is what a Network has that reaches servers of the same host another way.
type locals interface {
	ListenLocal(ctx context.Context, advertised string) (net.Listener, error)
}

// listen opens the listeners: the address, and on the default Network the socket
// by which this host's processes reach it. That one is not needed.
func (s *Server) listen(ctx context.Context) ([]net.Listener, error) {
	ln, err := s.cfg.Network.Listen(ctx, s.cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w: stop who has it, or name another (Listen, --listen)", s.cfg.Listen, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	all := []net.Listener{ln}
	if near := s.listenNear(ctx); near != nil {
		all = append(all, near)
	}
	s.log.Info("listening", "cluster", s.cfg.Cluster, "addr", ln.Addr().String(), "advertised", s.cfg.Advertise,
		"tls", s.cfg.TLSCert != "", "token", s.cfg.TokenFile != "")
	if s.cfg.sockets && !strings.HasPrefix(s.cfg.Advertise, "unix:") {
		s.warn(ln.Addr().String())
	}
	return all, nil
}

// listenNear opens the socket for processes of this host, nil where there is none.
func (s *Server) listenNear(ctx context.Context) net.Listener {
	n, ok := s.cfg.Network.(locals)
	if !ok || !s.cfg.sockets || strings.HasPrefix(s.cfg.Advertise, "unix:") {
		return nil
	}
	near, err := n.ListenLocal(ctx, s.cfg.Advertise)
	if err != nil {
		s.log.Warn("processes of this host reach this server by TCP, which costs more", "err", err)
		return nil
	}
	return near
}

// warn says aloud what was agreed to.
func (s *Server) warn(addr string) {
	switch {
	case loopback(addr) || s.cfg.TLSCert != "":
	case s.cfg.TokenFile != "":
		s.log.Warn("connections from other hosts are authenticated by the token but not encrypted: use TLS where others can listen in", "addr", addr)
	default:
		s.log.Warn("insecure: whoever reaches this address can read and change every parameter", "addr", addr)
	}
}
