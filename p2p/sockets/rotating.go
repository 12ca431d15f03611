package sockets

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// rotating is a certificate in files that may be replaced while we run: a new one is shown on the next connection. It may be used concurrently.
type rotating struct {
	cert, key string

	mu   sync.Mutex
	read time.Time // when the certificate's file was written
	pair *tls.Certificate
}

// load is the certificate as its files are now. While they do not fit together, because one of them is replaced already, it is the one before.
func (r *rotating) load() (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Stat(r.cert)
	if err == nil && r.pair != nil && info.ModTime().Equal(r.read) {
		return r.pair, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(r.cert, r.key)
	}
	switch {
	case err == nil:
		r.pair, r.read = &pair, info.ModTime()
	case r.pair == nil:
		return nil, fmt.Errorf("read certificate %s and key %s: %w", r.cert, r.key, err)
	}
	return r.pair, nil
}
