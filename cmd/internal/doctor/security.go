package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"time"
)

// renewal is how long before its end a certificate is to be replaced.
const renewal = 30 * 24 * time.Hour

// checkSecurity looks at certificates, keys and tokens, and whether a server that others can reach has any.
func checkSecurity(_ context.Context, p *patient) []Finding {
	var out []Finding
	if p.Refused != nil {
		out = append(out, found(Fail, p.Refused.Error(), ""))
	}
	for _, file := range []string{p.Certificate, p.Authority} {
		if file != "" {
			out = append(out, p.certificate(file))
		}
	}
	for _, file := range []string{p.Key, p.Token} {
		if file == "" {
			continue
		}
		if info, err := fs.Stat(p.Root, rooted(file)); err == nil && info.Mode().Perm()&0o077 != 0 {
			out = append(out, found(Warn, fmt.Sprintf("%s is a secret that others of this host may read or change (mode %04o)", file, info.Mode().Perm()), "chmod 600 "+file))
		}
	}
	if p.Listen != "" && !loopback(p.Listen) && !p.Insecure && p.Certificate == "" && p.Token == "" {
		out = append(out, found(Fail, "a server at "+p.Listen+" is reached from other hosts, with neither TLS nor a token: it refuses to start", "ps-server certs makes certificates (--tls-cert, --tls-key, --tls-ca); or --token-file, or --insecure on a trusted network"))
	}
	if out == nil && p.Token != "" {
		return []Finding{good("%s, a token, is readable by its owner only", p.Token)}
	}
	if out == nil {
		return []Finding{good("no certificate and no token is given: for loopback and Unix sockets")}
	}
	return out
}

// certificate says how long the first certificate of a PEM file is good.
func (p *patient) certificate(file string) Finding {
	b, err := fs.ReadFile(p.Root, rooted(file))
	if err != nil {
		return found(Fail, fmt.Sprintf("certificate %s cannot be read: %v", file, err), "ps-server certs makes certificates")
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return found(Fail, file+" is no PEM file", "ps-server certs makes certificates")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return found(Fail, fmt.Sprintf("%s has no certificate: %v", file, err), "ps-server certs makes certificates")
	}
	what := fmt.Sprintf("%s, of %q, is good until %s", file, cert.Subject.CommonName, cert.NotAfter.Format(time.DateOnly))
	now := p.Now
	switch {
	case now.Before(cert.NotBefore):
		return found(Fail, fmt.Sprintf("%s is good from %s on only", file, cert.NotBefore.Format(time.RFC3339)), "set the clock of this host")
	case now.After(cert.NotAfter):
		return found(Fail, fmt.Sprintf("%s ended on %s", file, cert.NotAfter.Format(time.RFC3339)), "make a new one: ps-server certs")
	case now.Add(renewal).After(cert.NotAfter):
		return found(Warn, what, "make a new one soon: ps-server certs")
	default:
		return good("%s", what)
	}
}

// loopback says whether an address is of this host alone.
func loopback(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true // it is reported elsewhere
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
