package backend_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hcclps/p2p/sockets/certs"
)

var (
	soakFor  = flag.Duration("soak", 2*time.Second, "time of TestSoak")
	soakOver = flag.String("soak-over", strings.Join(soaked(), ","), "transports of TestSoak")
)

// TestSoak moves bodies of all sizes in both directions over every backend at once, between this process and one other each, while that
// one is killed and started again, stopped for a while, connections are cut and calls are cancelled. Every call must end in the right bytes or
// an error that has a name, and what this process holds must not grow: it is printed at intervals.
//
//	go test ./p2p/backend -run TestSoak -soak 30m -timeout 1h -v
func TestSoak(t *testing.T) {
	dir := t.TempDir()
	writeCertificates(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := measure(t)
	var soaks []*soak
	for i, transport := range strings.Split(*soakOver, ",") {
		if !slices.Contains(soaked(), transport) {
			t.Fatalf("no transport %q: want some of %v", transport, soaked())
		}
		if transport == "hccl" && !needSimulator(t) {
			continue
		}
		s, err := newSoak(ctx, t, transport, dir, i)
		if err != nil {
			t.Fatal(err)
		}
		soaks = append(soaks, s)
	}
	var all sync.WaitGroup
	for _, s := range soaks {
		all.Go(func() { s.run(ctx) })
	}
	samples := watch(ctx, t, soaks)
	cancel()
	all.Wait()
	for _, err := range growth(samples) {
		t.Error(err)
	}
	for _, s := range soaks {
		s.judge()
	}
	t.Logf("before %v", before)
	t.Logf("after  %v", measure(t))
	wantFiles(t, dir)
}

// watch holds everything at intervals until the time is over, and measures what this process holds then.
func watch(ctx context.Context, t *testing.T, soaks []*soak) []usage {
	t.Helper()
	began := time.Now()
	interval := max(*soakFor/40, 500*time.Millisecond)
	var samples []usage
	busy := func(s *soak) bool { return s.load.made.Load() > 0 && s.load.served.Load() > 0 }
	late := time.After(*soakFor + time.Minute) // for a machine on which nothing has come through yet
	for over := false; !over && !t.Failed(); {
		rest(ctx, interval)
		for _, s := range soaks {
			s.load.quiet.Lock()
		}
		u := measure(t)
		for _, s := range soaks {
			s.load.quiet.Unlock()
		}
		samples = append(samples, u)
		t.Logf("%6v  %v", time.Since(began).Round(time.Second), u)
		select {
		case <-late:
			over = true
		default:
			over = time.Since(began) >= *soakFor && !slices.ContainsFunc(soaks, func(s *soak) bool { return !busy(s) })
		}
	}
	return samples
}

// soak is one transport: the station that stays, and what is done to the other.
type soak struct {
	*testing.T
	*station
	rng   *rand.Rand
	other site

	deaths, stalls, cuts atomic.Int64
}

func newSoak(ctx context.Context, t *testing.T, transport, dir string, number int) (*soak, error) {
	t.Helper()
	s := &soak{T: t, rng: rand.New(rand.NewPCG(rand.Uint64(), uint64(number)))}
	mine := site{Transport: transport, Dir: dir, ID: "stays", Device: "0"}
	s.other = site{Transport: transport, Dir: dir, ID: "dies", Device: "1"}
	if transport == "inproc" {
		mine.meeting = newMeeting()
		s.other.meeting = mine.meeting
	}
	l := &load{fault: func(err error) { t.Errorf("%s: %v", transport, err) }}
	var err error
	if s.station, err = newStation(ctx, mine, l); err != nil {
		return nil, fmt.Errorf("%s: %w", transport, err)
	}
	s.other.Peer = s.ln.Addr().String()
	return s, nil
}

// run soaks until ctx ends.
func (s *soak) run(ctx context.Context) {
	lives, stop := context.WithCancel(context.WithoutCancel(ctx)) // the first one must be there before anybody calls it
	defer stop()
	v := s.bear(lives)
	if v == nil {
		return
	}
	s.other.Addr, s.Peer = v.addr, v.addr
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.station.run(ctx); err != nil {
			s.Errorf("%s: %v", s.Transport, err)
		}
	})
	for ctx.Err() == nil && v != nil {
		s.disturb(ctx, v)
		s.load.quiet.RLock()
		s.kill(v)
		v = nil
		if ctx.Err() == nil {
			v = s.bear(lives)
		}
		s.load.quiet.RUnlock()
	}
	if v != nil {
		s.kill(v)
	}
	all.Wait()
}

func (s *soak) bear(ctx context.Context) *victim {
	v, err := startVictim(ctx, s.other, s.load.fault)
	if err == nil && v.addr == "" {
		err = errors.Join(errors.New("it did not say where it listens"), v.kill())
	}
	if err != nil {
		s.Errorf("%s: start the other process: %v", s.Transport, err)
		return nil
	}
	return v
}

func (s *soak) kill(v *victim) {
	if err := v.kill(); err != nil {
		s.Errorf("%s: %v", s.Transport, err)
	}
	s.deaths.Add(1)
}

// disturb lets a victim live for a while with small faults.
func (s *soak) disturb(ctx context.Context, v *victim) {
	life := min(max(*soakFor/20, 500*time.Millisecond), 5*time.Second)
	for range 1 + s.rng.IntN(4) {
		rest(ctx, time.Duration(s.rng.Int64N(int64(life))))
		if s.rng.IntN(2) == 0 || v.stall == nil {
			s.net.cut()
			s.cuts.Add(1)
			continue
		}
		s.load.quiet.RLock()
		v.stall(true)
		rest(ctx, time.Duration(s.rng.Int64N(int64(life/2)))) // at times longer than it takes to be taken for dead
		v.stall(false)
		s.load.quiet.RUnlock()
		s.stalls.Add(1)
	}
}

// judge says what happened, and fails when it was not enough to prove something.
func (s *soak) judge() {
	l, moved := s.load, s.client.Stats().Plus(s.server.Stats())
	s.Logf("%-6s %d calls made and %d served, %d cancelled, %d lost, %d MiB; %d deaths, %d stalls, %d cuts; %d resets, %d switches, %d MiB resumed, %d MiB again", s.Transport,
		l.made.Load(), l.served.Load(), l.cancelled.Load(), l.lost.Load(), l.bytes.Load()>>20, s.deaths.Load(), s.stalls.Load(), s.cuts.Load(),
		moved.Resets, moved.Switches, moved.Resumed>>20, moved.Again>>20)
	if l.made.Load() == 0 || l.served.Load() == 0 {
		s.Errorf("%s: no call came through", s.Transport)
	}
	if *soakFor >= time.Minute && (l.lost.Load() == 0 || l.cancelled.Load() == 0 || moved.Resets == 0 || s.Transport == "hccl" && moved.Switches == 0) {
		s.Errorf("%s: nothing went wrong: that proves nothing", s.Transport)
	}
}

func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	ca, err := certs.NewAuthority("soak", 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	node, err := ca.Issue(certs.Request{Name: "node", Validity: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(ca.Pair().Write(file("ca.crt"), file("ca.key")), node.Write(file("node.crt"), file("node.key"))); err != nil {
		t.Fatal(err)
	}
}

// wantFiles checks that nothing is in dir but certificates and the sockets of those who were killed.
func wantFiles(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	known := []string{"ca.crt", "ca.key", "node.crt", "node.key", "shm.dies", "unix.dies"}
	for _, f := range list {
		if !slices.Contains(known, f.Name()) {
			t.Errorf("%s is left", f.Name())
		}
	}
}
