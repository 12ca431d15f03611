package vec

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// peer is the program of testdata/twins.c, built by gcc -O3 -march=native. The other flags let gcc use vectors for square roots and keep it from fusing, as
// the kernels do.
type peer struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func newPeer(b *testing.B) *peer {
	b.Helper()
	if runtime.GOARCH != "amd64" {
		b.Skip("the C twins are for amd64")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		b.Skip("no gcc on this machine")
	}
	path := filepath.Join(b.TempDir(), "twins")
	build := exec.CommandContext(b.Context(), gcc, "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
		"-o", path, filepath.Join("testdata", "twins.c"), "-lm")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build twins: %v\n%s", err, out)
	}
	run := exec.CommandContext(b.Context(), path)
	in, err := run.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := run.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = run.Wait()
	})
	return &peer{in, bufio.NewReader(out)}
}

// ask runs one command for some time and returns its answer.
func (p *peer) ask(b *testing.B, name string, n int, ms float64, coeffs []float64) float64 {
	b.Helper()
	var c [8]float64
	copy(c[:], coeffs)
	if _, err := fmt.Fprintf(p.in, "%s %d %g %s\n", name, n, ms, strings.Trim(fmt.Sprint(c), "[]")); err != nil {
		b.Fatal(err)
	}
	var v float64
	if _, err := fmt.Fscan(p.out, &v); err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return v
}

// measure is the thread CPU time of one call of f, in nanoseconds, over ms milliseconds: the lower quartile of turns of a millisecond or two, since the
// machine may be shared and the clock of a virtual one jumps.
func measure(b *testing.B, ms float64, f func()) float64 {
	b.Helper()
	clock := func() float64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			b.Fatal(err)
		}
		return float64(ts.Nano())
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []float64
	calls := 1
	for end := clock() + ms*1e6; ; {
		began := clock()
		for range calls {
			f()
		}
		t := clock() - began
		if t < 1e6 {
			calls *= 2
			continue
		}
		took = append(took, t/float64(calls))
		if clock() > end {
			break
		}
	}
	slices.Sort(took)
	return took[len(took)/4]
}

// middle is the median.
func middle(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

const rounds = 5 // of each side, in turn; their median counts

// BenchmarkPeerNeedsGcc compares every kernel with its twin in C, in turn, by thread CPU time:
// go test -run '^$' -bench PeerNeedsGcc -benchtime 1x ./internal/vec
func BenchmarkPeerNeedsGcc(b *testing.B) {
	p := newPeer(b)
	for _, k := range allKernels() {
		for _, size := range benchSizes() {
			n := size / 4
			c := benchCoeffs(k)
			in := benchSlices(n, k.slices)
			b.Run(fmt.Sprintf("%s/%dKiB", k.name, size>>10), func(b *testing.B) {
				for range b.N {
					var us, them []float64
					for range rounds {
						us = append(us, measure(b, 30, func() { k.run(c, in) }))
						them = append(them, p.ask(b, k.name, n, 30, c))
					}
					ours, theirs := middle(us), middle(them)
					b.ReportMetric(float64(k.touched(n))/ours, "GB/s")
					b.ReportMetric(float64(k.touched(n))/theirs, "C_GB/s")
					b.ReportMetric(theirs/ours, "ratio")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}

// BenchmarkPeakNeedsGcc gives the products at the shapes of a deep model as a share of the core's peak, by thread CPU time:
// go test -run '^$' -bench PeakNeedsGcc -benchtime 1x ./internal/vec
func BenchmarkPeakNeedsGcc(b *testing.B) {
	peer := newPeer(b)
	peak := 0.0 // the best so far, since the machine may be shared
	for _, s := range deepShapes() {
		m, k, n := s[0], s[1], s[2]
		in := benchSlices(max(m*k, k*n, m*n), 3)
		for _, p := range products() {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", m, k, n, p.name), func(b *testing.B) {
				for range b.N {
					var took, peaks []float64
					for range rounds {
						took = append(took, measure(b, 30, func() { p.run(in[0], in[1], in[2], m, k, n, false) }))
						peaks = append(peaks, peer.ask(b, "peak", 1, 30, nil)/1e9)
					}
					peak = max(peak, middle(peaks))
					rate := 2 * float64(m) * float64(k) * float64(n) / middle(took)
					b.ReportMetric(rate, "GFLOP/s")
					b.ReportMetric(peak, "peak_GFLOP/s")
					b.ReportMetric(rate/peak, "share")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}
