package vec

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// peer is the library of testdata/twins.c, built by gcc -O3 -march=native. The other flags let gcc use vectors for square roots and keep it from fusing, as
// the kernels do. Both sides run in this process on the same memory, since where pages lie decides how well caches hold them.
type peer struct {
	measure func(kernel string, n int, slices *[5]*float32, coeffs *[8]float64, ms float64) float64
	peak    func(ms float64) float64
}

func newPeer(b *testing.B) *peer {
	b.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		b.Skip("no gcc on this machine")
	}
	path := filepath.Join(b.TempDir(), "twins.so")
	build := exec.CommandContext(b.Context(), gcc, "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
		"-shared", "-fPIC", "-o", path, filepath.Join("testdata", "twins.c"), "-lm")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build twins: %v\n%s", err, out)
	}
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		b.Fatal(err)
	}
	p := new(peer)
	purego.RegisterLibFunc(&p.measure, lib, "measure")
	purego.RegisterLibFunc(&p.peak, lib, "peak")
	return p
}

// ask is what a call of the twin takes on these slices.
func (p *peer) ask(b *testing.B, k kernel, n int, ms float64, coeffs []float64, in [][]float32) float64 {
	b.Helper()
	var s [5]*float32
	var c [8]float64
	for i := range in {
		s[i] = &in[i][0]
	}
	copy(c[:], coeffs)
	took := p.measure(k.name, n, &s, &c, ms)
	if took == 0 {
		b.Fatalf("%s has no twin in C", k.name)
	}
	return took
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

const (
	rounds     = 5  // of each side, in turn; the median of their ratios counts
	moreRounds = 20 // where that is below the bar, and all of them count: the machine may be shared
	roundTime  = 20 // ms
	bar        = 0.9
)

// compare gives the middle of the times of both sides and of their ratios.
func (p *peer) compare(b *testing.B, k kernel, n int, c []float64, in [][]float32) (ours, theirs, ratio float64) {
	b.Helper()
	var us, them, ratios []float64
	for range moreRounds {
		if len(us) == rounds && middle(ratios) >= bar {
			break
		}
		us = append(us, measure(b, roundTime, func() { k.run(c, in) }))
		them = append(them, p.ask(b, k, n, roundTime, c, in))
		ratios = append(ratios, them[len(them)-1]/us[len(us)-1])
	}
	return middle(us), middle(them), middle(ratios)
}

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
					ours, theirs, ratio := p.compare(b, k, n, c, in)
					b.ReportMetric(float64(k.touched(n))/ours, "GB/s")
					b.ReportMetric(float64(k.touched(n))/theirs, "C_GB/s")
					b.ReportMetric(ratio, "ratio")
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
						peaks = append(peaks, peer.peak(30)/1e9)
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
