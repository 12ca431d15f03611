package trace_test

import (
	"io"
	"testing"

	"hcclps/internal/trace"
)

// BenchmarkSpan is what a span costs: where nobody records, and where somebody does.
func BenchmarkSpan(b *testing.B) {
	off, on := trace.New(trace.Config{}), trace.New(trace.Config{})
	on.Start()
	for name, r := range map[string]*trace.Recorder{"nil": nil, "off": off, "on": on} {
		b.Run(name, func(b *testing.B) {
			t := r.Track("a", "b")
			for b.Loop() {
				s := t.Begin("c")
				s.Bytes = 1
				s.End()
			}
		})
		b.Run(name+"Parallel", func(b *testing.B) {
			t := r.Lanes("a", "p")
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					s := t.Begin("c")
					s.End()
				}
			})
		})
	}
}

// BenchmarkWrite is what the file of 100,000 spans costs.
func BenchmarkWrite(b *testing.B) {
	r := trace.New(trace.Config{})
	r.Start()
	t := r.Track("a", "b")
	for i := range int64(100000) {
		s := t.Begin("c")
		s.Step, s.Bytes, s.Peer, s.Out = i, i, "shard 1", uint64(i+1)
		s.End()
	}
	for b.Loop() {
		if err := r.Trace().Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
