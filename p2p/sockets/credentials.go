package sockets

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// credentials are what a process shows to others and what it believes of them.
type credentials struct {
	config *tls.Config
	roots  *x509.CertPool
	own    *rotating
	caPEM  string // the file, for errors
}

// readCredentials reads a certificate, its key and the CA, and checks that they fit together.
func readCredentials(cert, key, ca string) (*credentials, error) {
	if cert == "" || key == "" || ca == "" {
		return nil, errors.New("read certificates: all three are needed, the certificate, its key and the CA " +
			"(--tls-cert, --tls-key, --tls-ca): make them with ps-server certs")
	}
	own := &rotating{cert: cert, key: key}
	pair, err := own.load()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read CA %s: no certificate in it: want PEM", ca)
	}
	c := &credentials{own: own, caPEM: ca, roots: pool, config: &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.load() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.load() },
		RootCAs:              pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"hcclps"}, SessionTicketsDisabled: true,
		DynamicRecordSizingDisabled: true, // small records first are for browsers
	}}
	return c, c.check(pair.Leaf)
}

// check finds out now what the other side would say later.
func (c *credentials) check(leaf *x509.Certificate) error {
	_, err := leaf.Verify(x509.VerifyOptions{Roots: c.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("check certificate %s: %w", c.own.cert, c.explain(err))
	}
	return nil
}

// client is the configuration of who dials host.
func (c *credentials) client(host string) *tls.Config {
	cfg := c.config.Clone()
	cfg.ServerName = host
	return cfg
}

// explain says what is wrong with the other side, or with us as it sees it, and what to do about it.
func (c *credentials) explain(err error) error {
	if header, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("it does not speak TLS (%w): start it with --tls-cert, --tls-key and --tls-ca, or leave them out here", header)
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("the certificate of %s is not of the CA in %s (%w): one CA makes all certificates of a cluster, with ps-server certs",
			subject(unknown.Cert), c.caPEM, err)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		valid := ""
		if invalid.Reason == x509.Expired && invalid.Cert != nil {
			valid = fmt.Sprintf(", good from %s to %s", invalid.Cert.NotBefore.Format(time.RFC3339), invalid.Cert.NotAfter.Format(time.RFC3339))
		}
		return fmt.Errorf("the certificate of %s%s is not valid (%w): look at the clocks, or make a new one with ps-server certs", subject(invalid.Cert), valid, err)
	}
	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("the certificate of %s is not for %s but for %s: make one with ps-server certs --hosts %s, or dial another address",
			subject(host.Certificate), host.Host, hosts(host.Certificate), host.Host)
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return fmt.Errorf("it refuses our certificate %s (%w): it wants one of its own CA, good now and for the address that was dialled, "+
			"made with ps-server certs", c.own.cert, alert)
	}
	return err
}

func subject(cert *x509.Certificate) string {
	if cert == nil {
		return "the other side"
	}
	return fmt.Sprintf("%q", cert.Subject.CommonName)
}

// hosts lists what a certificate is for.
func hosts(cert *x509.Certificate) string {
	all := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no host"
	}
	return strings.Join(all, ", ")
}

// hostOf is the part of a TCP address that a certificate is for.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	host, _, _ = strings.Cut(host, "%") // without a zone
	return host
}
