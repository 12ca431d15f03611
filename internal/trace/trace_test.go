package trace_test

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/internal/trace"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// job records what two processes of a small job might: on fake time, so that the file is the same every time.
func job(t *testing.T) (worker, server *trace.Recorder) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		worker = trace.New(trace.Config{Process: "worker-0"})
		server = trace.New(trace.Config{Process: "server \"s1\"", ID: 1000})
		worker.Start()
		server.Start()
		train, pushes := worker.Track("train", "train"), worker.Lanes("push", "push")
		applies := server.Track("apply", "shard 1")
		for step := range int64(2) {
			whole := train.Begin("step")
			whole.Step = step
			model := train.Begin("compute")
			model.Step = step
			<-time.After(1500 * time.Nanosecond)
			model.End()
			id := trace.FlowID("push", uint64(step))
			var parts [2]trace.Span
			for i := range parts {
				parts[i] = pushes.Begin("push")
				parts[i].Bytes, parts[i].Step, parts[i].Peer, parts[i].Table = 4096, step, "s1", "emb"
				<-time.After(time.Microsecond)
			}
			parts[0].Out = id
			apply := applies.Begin("apply")
			apply.Step, apply.In = step, id
			<-time.After(time.Millisecond)
			apply.End()
			parts[0].End()
			parts[1].End()
			whole.End()
		}
		train.Mark("epoch over")
		worker.Track("memory", "memory").Sample("heap", 1<<20)
	})
	return worker, server
}

func encode(t *testing.T, tr *trace.Trace) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tr.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestGolden pins the file, alone and merged.
func TestGolden(t *testing.T) {
	w, s := job(t)
	for name, tr := range map[string]*trace.Trace{
		"worker.json": w.Trace(), "server.json": s.Trace(), "merged.json": &trace.Merge(w.Trace(), s.Trace()).Trace,
	} {
		got, path := encode(t, tr), filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is now (see -rewrite)\n%s", path, got)
		}
		if err := trace.Check(tr, name == "merged.json"); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		again, err := trace.Read(bytes.NewReader(want))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if b := encode(t, again); !bytes.Equal(b, want) {
			t.Errorf("%s read and written is\n%s", path, b)
		}
	}
}

// TestOff says that what is off, or not there, records nothing.
func TestOff(t *testing.T) {
	var none *trace.Recorder
	off := trace.New(trace.Config{})
	for name, r := range map[string]*trace.Recorder{"nil": none, "off": off} {
		tr := r.Track("a", "b")
		s := tr.Begin("c")
		s.Bytes = 1
		if s.Active() {
			t.Errorf("%s: span is active", name)
		}
		s.End()
		tr.Mark("d")
		tr.Sample("e", 1)
		if got := r.Trace(); len(got.Events) != 0 {
			t.Errorf("%s: recorded %v", name, got.Events)
		}
	}
	none.Start()
	none.Stop()
	none.Reset()
	if none.On() {
		t.Error("nil recorder is on")
	}
	off.Start()
	s := off.Track("a", "b").Begin("late")
	off.Stop()
	s.End()
	if got := off.Trace(); len(got.Events) != 0 {
		t.Errorf("a span that ended when recording was off: %v", got.Events)
	}
	allocs := testing.AllocsPerRun(100, func() {
		s := off.Track("a", "b").Begin("c")
		s.End()
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a span that is not recorded", allocs)
	}
}

// TestBounded records more than fits: the newest stay, what is left is whole, and the rest is counted.
func TestBounded(t *testing.T) {
	r := trace.New(trace.Config{Records: 1 << 13})
	r.Start()
	var wg sync.WaitGroup
	const goroutines, each = 4, 20000
	for range goroutines {
		wg.Go(func() {
			tr := r.Lanes("load", "load")
			for i := range int64(each) {
				s := tr.Begin("outer")
				s.Step = i
				s.End()
			}
		})
	}
	wg.Wait()
	got := r.Trace()
	if err := trace.Check(got, false); err != nil {
		t.Error(err)
	}
	kept := 0
	for _, e := range got.Events {
		if e.Phase == trace.Complete {
			kept++
		}
	}
	if lost := int(got.Processes[0].Lost); kept+lost != goroutines*each {
		t.Errorf("%d spans kept and %d lost of %d", kept, lost, goroutines*each)
	}
	if kept > 1<<14 || kept < 1<<10 {
		t.Errorf("%d spans kept, at most %d fit", kept, 1<<13)
	}
	r.Reset()
	if got := r.Trace(); len(got.Events) != 0 || got.Processes[0].Lost != 0 {
		t.Errorf("after Reset: %d events, %d lost", len(got.Events), got.Processes[0].Lost)
	}
}

// TestManyWords bounds what is kept of names too.
func TestManyWords(t *testing.T) {
	r := trace.New(trace.Config{})
	r.Start()
	tr := r.Track("a", "b")
	const names = 100000
	for i := range names {
		tr.Mark("name " + strconv.Itoa(i))
	}
	different := map[string]int{}
	for _, e := range r.Trace().Events {
		different[e.Name]++
	}
	if different["name 0"] != 1 || different["..."] == 0 || len(different) > 1<<16 {
		t.Errorf("%d different names, %d of them ...", len(different), different["..."])
	}
}

// TestAnyOrder begins and ends spans as nobody should, on tracks of both kinds: the trace is good all the same.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			r := trace.New(trace.Config{Records: 1 << 10})
			r.Start()
			tracks := []*trace.Track{r.Track("a", "nested"), r.Lanes("b", "lanes"), r.For("part").Track("a", "nested")}
			var open []trace.Span
			for range 20 + rng.IntN(3000) {
				switch tr := tracks[rng.IntN(len(tracks))]; rng.IntN(6) {
				case 0, 1:
					s := tr.Begin("span")
					s.Out = uint64(rng.IntN(50))
					open = append(open, s)
				case 2, 3:
					if n := len(open); n > 0 {
						i := rng.IntN(n)
						open[i].Join(uint64(rng.IntN(50)))
						open[i].Join(uint64(rng.IntN(50)))
						open[i].End()
						open[i].End()
						open = slices.Delete(open, i, i+1)
					}
				case 4:
					tr.Mark("mark")
				default:
					<-time.After(time.Duration(rng.IntN(3)) * time.Nanosecond)
				}
			}
			tr := r.Trace()
			if err := trace.Check(tr, false); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if m := trace.Merge(tr); trace.Check(&m.Trace, true) != nil {
				t.Errorf("seed %d, merged: %v", seed, trace.Check(&m.Trace, true))
			}
		})
	}
}

// TestMemory samples while the recorder is on, and only then.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := trace.New(trace.Config{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		count := func() (heap int) {
			for _, e := range r.Trace().Events {
				if e.Phase != trace.Counter || e.Value <= 0 || e.Name != "heap" && e.Name != "rss" {
					t.Errorf("%v, value %d", &e, e.Value)
				}
				if e.Name == "heap" {
					heap++
				}
			}
			return heap
		}
		<-time.After(time.Second)
		if n := count(); n != 0 {
			t.Errorf("%d samples while it was off", n)
		}
		r.Start()
		<-time.After(time.Second)
		synctest.Wait()
		r.Stop()
		n := count()
		if n < 9 || n > 12 {
			t.Errorf("%d samples in a second, want about 10", n)
		}
		<-time.After(time.Second)
		if again := count(); again != n {
			t.Errorf("%d samples while it was off again", again-n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var none *trace.Recorder
		if err := none.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}
