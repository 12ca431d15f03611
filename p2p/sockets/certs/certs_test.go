package certs_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/p2p/sockets/certs"
)

func leaf(t *testing.T, p certs.Pair) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(p.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestIssuedCertificatesServeBothEnds(t *testing.T) {
	ca, err := certs.NewAuthority("training", 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(certs.Request{Name: "s1", Hosts: []string{"10.0.0.5", "node5", "fe80::1"}, Validity: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Pair().Cert)
	cert := leaf(t, pair)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		for _, host := range []string{"10.0.0.5", "node5", "fe80::1", "localhost", "127.0.0.1", "::1"} {
			if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Errorf("use %v at %s: %v", usage, host, err)
			}
		}
	}
	if err := cert.VerifyHostname("node6"); err == nil {
		t.Error("good for a host that was not asked for")
	}
	if cert.IsCA || cert.NotAfter.After(leaf(t, ca.Pair()).NotAfter) {
		t.Errorf("CA %v, good until %v", cert.IsCA, cert.NotAfter)
	}
	again, err := certs.Parse(ca.Pair())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.Issue(certs.Request{Name: "s2", Validity: time.Hour}); err != nil {
		t.Error(err)
	} else if _, err := leaf(t, second).Verify(x509.VerifyOptions{Roots: roots}); err != nil {
		t.Errorf("issued by the CA as read: %v", err)
	}
	if _, err := certs.Parse(pair); err == nil || !strings.Contains(err.Error(), `"s1"`) {
		t.Errorf("a process's certificate taken for a CA: %v", err)
	}
}

func TestBadRequests(t *testing.T) {
	ca, err := certs.NewAuthority("x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []certs.Request{{Name: "", Validity: 1}, {Name: "a"}, {Name: "a", Validity: -1}} {
		if _, err := ca.Issue(r); err == nil {
			t.Errorf("issued %+v", r)
		}
	}
	old, err := certs.NewAuthority("x", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Issue(certs.Request{Name: "a", Validity: time.Hour}); err == nil || !strings.Contains(err.Error(), "was good until") {
		t.Errorf("issued by an expired CA: %v", err)
	}
}

func TestFilesAreNotOverwritten(t *testing.T) {
	ca, err := certs.NewAuthority("x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	crt, key := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	if err := os.WriteFile(crt, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ca.Pair().Write(crt, key); err == nil || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("write over a file: %v", err)
	}
	if b, _ := os.ReadFile(crt); string(b) != "precious" {
		t.Errorf("the file was %q", b)
	}
	if _, err := os.Stat(key); err == nil {
		t.Error("half of the pair is left")
	}
	_ = os.Remove(crt)
	if err := ca.Pair().Write(crt, key); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", info.Mode(), err)
	}
	if got, err := certs.Read(crt, key); err != nil || string(got.Key) != string(ca.Pair().Key) {
		t.Errorf("read back: %v", err)
	}
	if _, err := certs.Read(filepath.Join(dir, "none"), key); err == nil {
		t.Error("read a file that is not there")
	}
}
