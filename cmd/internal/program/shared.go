package program

import (
	"io"
	"os"
	"sync"
)

// shared is a writer for several goroutines: logs, progress and the output of children go to one place.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

// share makes w one. A file is one already, and is looked at for what it is.
func share(w io.Writer) io.Writer {
	if _, ok := w.(*os.File); ok {
		return w
	}
	return &shared{to: w}
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}
