package compress_test

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"hcclps/compress"
	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

var (
	_ p2p.Source = (*compress.Source)(nil)
	_ p2p.Sink   = (*compress.Sink)(nil)
)

// TestBetweenRanks: one rank encodes the next chunk while the other decodes the last one, with every codec.
func TestBetweenRanks(t *testing.T) {
	for _, name := range codecs() {
		f := newFeedback(t, name, 100_000)
		x := normal(1, 100_000)
		source, err := f.Source(nil, x, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]float32, len(x)), make([]float32, len(x))
		sink := compress.NewSink(got, compress.Set, source.Len())
		comms := inproc.World(2)
		var g errgroup.Group
		const chunk = 4096
		g.Go(func() error {
			for off := 0; off < source.Len(); off += chunk {
				b := make([]byte, min(chunk, source.Len()-off))
				if err := source.Fill(off, b); err != nil {
					return err
				}
				if err := p2p.Send(t.Context(), comms[0], 1, p2p.Bytes(b)); err != nil {
					return err
				}
			}
			return nil
		})
		g.Go(func() error {
			for off := 0; off < sink.Len(); off += chunk {
				b := make([]byte, min(chunk, sink.Len()-off))
				if err := p2p.Recv(t.Context(), comms[1], 0, p2p.Bytes(b)); err != nil {
					return err
				}
				if err := sink.Take(off, b); err != nil {
					return err
				}
			}
			return sink.Close()
		})
		if err := errors.Join(g.Wait(), comms[0].Close(), comms[1].Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, r := range f.Residual() {
			want[i] = x[i] - r
		}
		if d, length := distance(want, got); d > 1e-6*length {
			t.Errorf("%s: %v of %v away from what the sender has", name, d, length)
		}
		if all, err := source.Finish(); err != nil || len(all) != source.Len() || !slices.Equal(all[:3], []byte("hcf")) {
			t.Errorf("%s: %d bytes, %v", name, len(all), err)
		}
	}
}
