package pushbench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/p2p/backend"
	"hcclps/ps"
	"hcclps/worker"
)

// serving runs one server without replication in this process, at a Unix socket, and is how a worker reaches it.
func serving(t testing.TB, transport backend.Transport) worker.Config {
	t.Helper()
	bulk := backend.Config{Transport: transport, NoFallback: true}
	addr := "unix:" + filepath.Join(t.TempDir(), "s")
	s, err := ps.New(ps.Config{Dir: t.TempDir(), Listen: addr, Replicas: 1, Shards: 2, Scratch: true, Bulk: bulk, Memory: 4 << 30})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return worker.Config{Servers: []string{addr}, Job: "job", Sum: true, Bulk: bulk}
}

func TestEachSizeIsPushedAndPulled(t *testing.T) {
	spec := Spec{Worker: serving(t, backend.SHM), Sizes: []int{4, 100004}, Time: 20 * time.Millisecond, Rounds: 3, Parts: 2}
	var got []string
	if err := Run(t.Context(), spec, func(r Result) error {
		got = append(got, fmt.Sprint(r.Op, r.Size))
		if r.Wrong != 0 || r.Number < 1 || r.Algbw <= 0 || r.Best < r.Algbw || r.Spread < 1 || r.Memcpy <= 0 || r.Parts != 2 {
			t.Errorf("%+v", r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"push4", "pull4", "push100004", "pull100004"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAPushTooFewIsSeenInEachWeight(t *testing.T) {
	client, err := worker.Connect(t.Context(), serving(t, backend.TCP))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Abandon()
	x, err := newTensor(t.Context(), client, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repeat(t.Context(), x.push, 3); err != nil {
		t.Fatal(err)
	}
	if n, err := x.wrong(t.Context()); n != 0 || err != nil {
		t.Errorf("%d weights are wrong, %v", n, err)
	}
	x.pushed++
	if n, err := x.wrong(t.Context()); n != 5000 || err != nil {
		t.Errorf("%d weights are wrong, want all 5000: %v", n, err)
	}
}

// cpuTime is the time that all threads of this process have run.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPush and BenchmarkPull are for profiles: worker and server are one process, so that what both do is in one picture.
func BenchmarkPush(b *testing.B) { measure(b, (*tensor).push) }

func BenchmarkPull(b *testing.B) { measure(b, (*tensor).pull) }

func measure(b *testing.B, op func(*tensor, context.Context) error) {
	b.Helper()
	for _, transport := range []backend.Transport{backend.SHM, backend.TCP} {
		for _, size := range []int{128 << 10, 1 << 20, 4 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", transport, size>>10), func(b *testing.B) {
				cfg := serving(b, transport)
				cfg.Parts = defaultParts(size)
				client, err := worker.Connect(b.Context(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				defer client.Abandon()
				t, err := newTensor(b.Context(), client, size/4)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := repeat(b.Context(), t.push, 2); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
				before := cpuTime()
				for b.Loop() {
					if err := op(t, b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((cpuTime()-before).Seconds()/(float64(b.N)*float64(size)/1e9), "cpu-s/GB")
			})
		}
	}
}
