// Package certs makes a certificate authority for a cluster and the certificates of its processes, for those who have no authority of
// their own. One CA stands for one cluster: whoever has a certificate of it is let in.
//
//	ca, err := certs.NewAuthority("training", validity)
//	pair, err := ca.Issue(certs.Request{Name: "s1", Hosts: []string{"10.0.0.5", "node5"}, Validity: validity})
//	err = pair.Write("s1.crt", "s1.key")
//
// Keys are ECDSA on P-256. A certificate serves both ends of a connection, since servers dial each other. The functions may be called
// concurrently.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// backdate is how much earlier than now a certificate begins to be good, since clocks differ.
const backdate = time.Hour

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// Authority issues certificates.
type Authority struct {
	pair Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// Request says whom a certificate is for.
type Request struct {
	Name     string        // common name, shown in errors
	Hosts    []string      // names and IP addresses it is dialled by; this host's loopback names are added
	Validity time.Duration // from now; not longer than the authority's
}

// NewAuthority makes a CA that is good for validity.
func NewAuthority(name string, validity time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of CA: %w", err)
	}
	t, err := template(name+" CA", validity)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign
	pair, err := sign(t, t, key, key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	return Parse(pair)
}

// Parse takes a CA that was made before.
func Parse(pair Pair) (*Authority, error) {
	both, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	key, ok := both.PrivateKey.(crypto.Signer)
	if !ok || !both.Leaf.IsCA {
		return nil, fmt.Errorf("read CA: %q is the certificate of a process, not of a CA", both.Leaf.Subject.CommonName)
	}
	return &Authority{pair: pair, cert: both.Leaf, key: key}, nil
}

// Pair is the CA itself, for a file.
func (a *Authority) Pair() Pair { return a.pair }

// Issue makes a certificate and its key.
func (a *Authority) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make key of %s: %w", r.Name, err)
	}
	t, err := template(r.Name, r.Validity)
	if err != nil {
		return Pair{}, err
	}
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	if time.Now().After(a.cert.NotAfter) {
		return Pair{}, fmt.Errorf("make certificate of %s: its CA was good until %s: make a new one", r.Name, a.cert.NotAfter.Format(time.RFC3339))
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, r.Hosts...) {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	pair, err := sign(t, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("make certificate of %s for %v: %w", r.Name, r.Hosts, err)
	}
	return pair, nil
}

func template(name string, validity time.Duration) (*x509.Certificate, error) {
	if name == "" || validity <= 0 {
		return nil, fmt.Errorf("make certificate of %q, good for %v: want a name and a time", name, validity)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"hcclps"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(validity),
	}, nil
}

func sign(t, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// Read reads a pair from two files.
func Read(cert, key string) (Pair, error) {
	c, err := os.ReadFile(cert)
	k, kerr := os.ReadFile(key)
	if err := errors.Join(err, kerr); err != nil {
		return Pair{}, fmt.Errorf("read certificate and key: %w", err)
	}
	return Pair{Cert: c, Key: k}, nil
}

// Write writes the pair to two files that must not exist; the key is for this user alone. If one of them cannot be written neither is left.
func (p Pair) Write(cert, key string) error {
	if err := create(key, p.Key, 0o600); err != nil {
		return err
	}
	if err := create(cert, p.Cert, 0o644); err != nil {
		return errors.Join(err, os.Remove(key))
	}
	return nil
}

// create writes a file that must not exist.
func create(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("write %s: it is there already and is not overwritten: choose another name or folder, or remove it", path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}
