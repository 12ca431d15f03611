package sockets

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"hcclps/p2p/sockets/certs"
)

func TestCertificatesMayBeReplaced(t *testing.T) {
	ca := authority(t)
	dir := t.TempDir()
	r := &rotating{cert: filepath.Join(dir, "crt"), key: filepath.Join(dir, "key")}
	shown := func() string {
		t.Helper()
		pair, err := r.load()
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.Subject.CommonName
	}
	issue := func(name string) certs.Pair {
		t.Helper()
		pair, err := ca.Issue(certs.Request{Name: name, Validity: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	if _, err := r.load(); err == nil {
		t.Error("loaded nothing")
	}
	if err := issue("first").Write(r.cert, r.key); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "first" {
		t.Errorf("shows %s", got)
	}
	second := issue("second")
	replace := func(path string, b []byte, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	replace(r.cert, second.Cert, time.Minute)
	if got := shown(); got != "first" {
		t.Errorf("with half of the second: shows %s", got)
	}
	replace(r.key, second.Key, 0)
	if got := shown(); got != "second" {
		t.Errorf("with the second: shows %s", got)
	}
	if err := os.Remove(r.cert); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "second" {
		t.Errorf("without files: shows %s", got)
	}
}
