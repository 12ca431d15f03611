package main

import (
	"bytes"
	"sync"
)

// syncBuffer is a buffer that a child writes and a test reads.
type syncBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	grown chan struct{} // a token after a write
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.grown <- struct{}{}:
	default:
	}
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
