package ps

import (
	"strings"
	"testing"
)

// A list that cannot work is refused before anybody waits for the others.
func TestReplicasShareNoHost(t *testing.T) {
	for name, c := range map[string]struct {
		cfg Config
		ok  bool
	}{
		"one host":          {Config{Peers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, Replicas: 3}, false},
		"one host, allowed": {Config{Peers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, Replicas: 3, AllowSameHost: true}, true},
		"one copy":          {Config{Peers: []string{"127.0.0.1:1", "127.0.0.1:2"}, Replicas: 1}, true},
		"three hosts":       {Config{Peers: []string{"a:1", "b:1", "c:1", "c:2"}, Replicas: 3}, true},
		"Unix sockets":      {Config{Peers: []string{"unix:/a", "unix:/b", "unix:/c"}, Replicas: 3}, false},
	} {
		if err := c.cfg.apart(); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "--allow-same-host") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
