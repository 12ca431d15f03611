package inproc_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
)

func TestFabricIsAComm(t *testing.T) {
	p2ptest.TestComm(t, func(_ *testing.T, n int) []p2p.Comm {
		return inproc.Fabric{Port: 10e9, Link: inproc.Link{Latency: 10 * time.Microsecond, Bandwidth: 5e9}}.World(n)
	})
}

// message is one of so many bytes.
type message struct{ from, to, size int }

// took is how long messages take that are sent at once.
func took(t *testing.T, f inproc.Fabric, ranks int, ms ...message) (d time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		comms := f.World(ranks)
		start := time.Now()
		var reqs []*p2p.Request
		for _, m := range ms {
			reqs = append(reqs, comms[m.to].Irecv(m.from, p2p.Bytes(make([]byte, m.size))), comms[m.from].Isend(m.to, p2p.Bytes(make([]byte, m.size))))
		}
		var all sync.WaitGroup
		for _, r := range reqs {
			all.Go(func() {
				if err := r.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		d = time.Since(start)
	})
	return d
}

func TestTimesOfAFabric(t *testing.T) {
	const mb = 1_000_000
	link := inproc.Link{Latency: time.Millisecond, Bandwidth: 100e6}
	hosts := inproc.Fabric{Link: link, Hosts: []int{0, 0, 1, 1}, Across: inproc.Link{Latency: 5 * time.Millisecond}, Uplink: 50e6}
	for _, c := range []struct {
		what string
		f    inproc.Fabric
		ms   []message
		want time.Duration
	}{
		{"latency", inproc.Fabric{Link: link}, []message{{0, 1, 0}}, time.Millisecond},
		{"latency and bytes", inproc.Fabric{Link: link}, []message{{0, 1, mb}}, 11 * time.Millisecond},
		{"one after the other", inproc.Fabric{Link: link}, []message{{0, 1, mb}, {0, 1, mb}}, 21 * time.Millisecond},
		{"directions and pairs do not disturb each other", inproc.Fabric{Link: link}, []message{{0, 1, mb}, {1, 0, mb}, {0, 2, mb}, {3, 1, mb}}, 11 * time.Millisecond},
		{"a port carries one at a time", inproc.Fabric{Link: link, Port: 100e6}, []message{{0, 1, mb}, {0, 2, mb}}, 21 * time.Millisecond},
		{"so does that of a receiver", inproc.Fabric{Link: link, Port: 100e6}, []message{{1, 0, mb}, {2, 0, mb}}, 21 * time.Millisecond},
		{"sending and receiving are two", inproc.Fabric{Link: link, Port: 100e6}, []message{{0, 1, mb}, {1, 0, mb}}, 11 * time.Millisecond},
		{"overhead", inproc.Fabric{Link: link, Overhead: 2 * time.Millisecond}, []message{{0, 1, 0}, {0, 2, 0}, {1, 0, 0}}, 5 * time.Millisecond},
		{"within a host", hosts, []message{{0, 1, mb}, {2, 3, mb}}, 11 * time.Millisecond},
		{"between hosts", hosts, []message{{0, 2, mb}}, 25 * time.Millisecond},
		{"hosts share their way out", hosts, []message{{0, 2, mb}, {1, 3, mb}, {3, 1, mb}}, 45 * time.Millisecond},
	} {
		if got := took(t, c.f, 4, c.ms...); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
