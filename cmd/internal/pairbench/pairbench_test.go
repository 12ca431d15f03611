package pairbench

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/hccl/sim"
	"hcclps/p2p/inproc"
	"hcclps/p2p/shm"
)

// pairs connects two ranks in the way of a transport, both in this process, and calls f as rank 0.
func pairs(t *testing.T, cfg Config, f func(ctx context.Context, p *Pair) error) error {
	t.Helper()
	return pairsOf(t, cfg, f, Serve)
}

// pairsOf has a serve for rank 1; inproc has none.
func pairsOf(t *testing.T, cfg Config, f, serve func(ctx context.Context, p *Pair) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if cfg.Transport == Inproc {
		p := Together(ctx)
		return p.Do(ctx, func(ctx context.Context) error { return f(ctx, p) })
	}
	cfg.Dir = t.TempDir()
	host, err := Listen(ctx, cfg)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() {
		p, err := Dial(ctx, cfg, host.Addr())
		if err == nil {
			err = p.Do(ctx, func(ctx context.Context) error { return serve(ctx, p) })
		}
		served <- err
	}()
	p, err := host.Accept(ctx)
	if err == nil {
		err = p.Do(ctx, func(ctx context.Context) error { return f(ctx, p) })
	}
	if err != nil {
		cancel()
	}
	return errors.Join(err, <-served)
}

// simulator is built once, in simulatorDir: a process must not load two.
var simulator = sync.OnceValues(func() (lib string, err error) {
	if simulatorDir, err = os.MkdirTemp("", "pairbench-sim-"); err != nil {
		return "", err
	}
	return sim.Build(context.Background(), simulatorDir)
})

var simulatorDir string // "": none was built

// simulate makes hccl use the simulator, if it can be built.
func simulate(t *testing.T) error {
	t.Helper()
	lib, err := simulator()
	if err != nil && !errors.Is(err, sim.ErrNoCompiler) {
		t.Fatal(err)
	}
	t.Setenv("HCCL_SIM_QUIET", "1")
	t.Setenv(acl.EnvLib, lib)
	return err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if simulatorDir != "" {
		_ = os.RemoveAll(simulatorDir)
	}
	os.Exit(code)
}

func TestEveryTransportIsMeasured(t *testing.T) {
	sizes := []int{0, 1, 8, 1000, 1 << 16, 3<<20 + 1}
	noDevice := simulate(t)
	for _, transport := range Transports() {
		for _, both := range []bool{false, true} {
			name := transport
			if both {
				name += "/both"
			}
			t.Run(name, func(t *testing.T) {
				if transport == HCCL && noDevice != nil {
					t.Skipf("no simulator: %v", noDevice)
				}
				var got []Result
				err := pairs(t, Config{Transport: transport, Stripes: 2, Checksum: both, Devices: [2]int{0, 1}}, func(ctx context.Context, p *Pair) error {
					return Run(ctx, p, Spec{Sizes: sizes, Both: both, Time: 10 * time.Millisecond, Rounds: 2}, func(r Result) error {
						got = append(got, r)
						return nil
					})
				})
				if errors.Is(err, shm.ErrNotLocal) {
					t.Skipf("no shared memory here: %v", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range got {
					if r.Size != sizes[i] || r.Wrong != 0 || r.Micros <= 0 || (r.Algbw > 0) != (r.Size > 0) {
						t.Errorf("%+v", r)
					}
					if want := map[bool]float64{false: r.Algbw, true: 2 * r.Algbw}[both]; r.Busbw != want {
						t.Errorf("busbw %v of %+v, want %v", r.Busbw, r, want)
					}
				}
				if len(got) != len(sizes) {
					t.Errorf("%d results of %d", len(got), len(sizes))
				}
			})
		}
	}
}

func TestMessagesThroughATransfer(t *testing.T) {
	for _, transport := range []string{Unix, TCP, Shm} {
		err := pairs(t, Config{Transport: transport, Transfer: true, Stripes: 2}, func(ctx context.Context, p *Pair) error {
			return Run(ctx, p, Spec{Sizes: []int{8, 100_000, 9 << 20}, Both: true, Time: 10 * time.Millisecond, Rounds: 1}, func(r Result) error {
				if r.Wrong != 0 || r.Algbw <= 0 {
					t.Errorf("%s: %+v", transport, r)
				}
				return nil
			})
		})
		if errors.Is(err, shm.ErrNotLocal) {
			t.Skipf("no shared memory here: %v", err)
		}
		if err != nil {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

// slow sends each message in a millisecond, any number at once; the first quick ones in a microsecond.
type slow struct {
	p2p.Comm
	size  int
	quick *atomic.Int64
}

func (s slow) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if b.Len() != s.size {
		return s.Comm.Isend(peer, b)
	}
	r, c := p2p.NewRequest()
	takes := time.Millisecond
	if s.quick.Add(-1) >= 0 {
		takes = time.Microsecond
	}
	time.AfterFunc(takes, func() { c.Complete(s.Comm.Isend(peer, b).Wait(context.Background())) })
	return r
}

func TestFiguresOfAKnownPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1_000_000
		var quick atomic.Int64
		comms := inproc.World(2)
		p := &Pair{Transport: Inproc, Comm: slow{comms[0], size, &quick}, peer: newLocal(t.Context(), slow{comms[1], size, &quick})}
		spec := Spec{Sizes: []int{size}, Time: time.Second, Rounds: 3, Slots: 4}
		for _, both := range []bool{false, true} {
			spec.Both = both
			err := Run(t.Context(), p, spec, func(r Result) error {
				if r.Micros != 1000 {
					t.Errorf("one way in %v us, want 1000", r.Micros)
				}
				if r.Algbw < 3.9 || r.Algbw > 4 { // four messages of a megabyte in a millisecond, but for the last
					t.Errorf("a stream of %v GB/s, want 4", r.Algbw)
				}
				if r.Spread != 1 || r.Number < 100 {
					t.Errorf("%+v: want equal rounds of a sixth of a second", r)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What was planned for a quiet machine does not last a thousand times as long on a busy one.
func TestRoundsOfABusyMachineAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		var quick atomic.Int64
		quick.Store(3000) // enough for the trials
		comms := inproc.World(2)
		p := &Pair{Transport: Inproc, Comm: slow{comms[0], size, &quick}, peer: newLocal(t.Context(), slow{comms[1], size, &quick})}
		spec := Spec{Sizes: []int{size}, Time: 10 * time.Millisecond, Rounds: 5, Slots: 4}
		err := Run(t.Context(), p, spec, func(r Result) error {
			if r.Number != 4 {
				t.Errorf("%d messages in the last round of the stream, want 4", r.Number)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestMedian(t *testing.T) {
	for want, v := range map[float64][]float64{0: nil, 1: {1}, 2: {3, 1, 2}, 5: {9, 5, 1, 7, 0}} {
		if got := median(v); got != want {
			t.Errorf("median of %v is %v, want %v", v, got, want)
		}
	}
}

// Whichever rank notices first that a Comm is closed: rank 0 says what it has done, and what the other rank has met.
func TestRankThatDiesIsAnError(t *testing.T) {
	for _, waits := range []bool{false, true} {
		noticed := make(chan struct{})
		err := pairsOf(t, Config{Transport: Unix}, func(ctx context.Context, p *Pair) error {
			if err := p.Comm.Close(); err != nil {
				return err
			}
			if waits {
				<-noticed
			}
			return Run(ctx, p, Spec{Sizes: []int{8}, Time: time.Millisecond}, func(Result) error { return nil })
		}, func(ctx context.Context, p *Pair) error {
			context.AfterFunc(ctx, func() { close(noticed) })
			return Serve(ctx, p)
		})
		if !errors.Is(err, p2p.ErrClosed) || !strings.Contains(err.Error(), "the other rank: ") {
			t.Errorf("measured over a closed Comm, which the other rank has noticed: %v: %v", waits, err)
		}
	}
}

// end is a pair whose other rank is c, and whose Comm ends by run.
func end(t *testing.T, run func(ctx context.Context) error) (p *Pair, c net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	return &Pair{Transport: Unix, Comm: inproc.World(2)[0], run: run, control: near, peer: newRemote(near)}, far
}

// A measurement that is ended says why, not what that did to a connection.
func TestMeasurementThatIsEndedSaysWhy(t *testing.T) {
	p, _ := end(t, nil)
	reason := errors.New("the machine is wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := p.Do(ctx, func(ctx context.Context) error {
		cancel(reason)
		_, err := p.peer.end(ctx)
		return err
	})
	if !errors.Is(err, reason) || !strings.HasPrefix(err.Error(), reason.Error()) {
		t.Errorf("a measurement that was ended: %v", err)
	}
}

// A rank whose Comm has ended waits for what the other one says about it.
func TestRankWithoutACommHearsTheOther(t *testing.T) {
	reason := errors.New("nobody reads")
	p, other := end(t, func(context.Context) error { return reason })
	err := p.Do(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		go func() { _ = json.NewEncoder(other).Encode(outcome{Err: "a chunk has another sum"}) }()
		_, err := p.peer.end(ctx)
		return err
	})
	if !errors.Is(err, reason) || !strings.Contains(err.Error(), "a chunk has another sum") {
		t.Errorf("a measurement whose Comm has ended: %v", err)
	}
}

func TestNobodyDials(t *testing.T) {
	host, err := Listen(t.Context(), Config{Transport: TCP})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the other process has ended"))
	if _, err := host.Accept(ctx); err == nil || !strings.Contains(err.Error(), "the other process has ended") {
		t.Errorf("accepted nobody: %v", err)
	}
}

func TestTable(t *testing.T) {
	var human, machine strings.Builder
	r := Result{Size: 1 << 20, Count: 1 << 20, Type: "uint8", Redop: "none", Micros: 81.2, Algbw: 13.24, Busbw: 13.24, CPU: 0.14, Slots: 8, Number: 40}
	for w, json := range map[*strings.Builder]bool{&human: false, &machine: true} {
		tab := NewTable(w, json)
		if err := errors.Join(tab.Head("shm"), tab.Row(r)); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Split(human.String(), "\n"); len(lines) != 5 || len(lines[1]) != len(lines[3]) {
		t.Errorf("columns do not line up:\n%s", human.String())
	}
	var got Result
	if err := json.Unmarshal([]byte(machine.String()), &got); err != nil || got != r {
		t.Errorf("%+v printed as %s: %v", r, machine.String(), err)
	}
}
