package p2p_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

func TestDType(t *testing.T) {
	sizes := map[p2p.DType]int{
		p2p.Float32: 4, p2p.Float16: 2, p2p.BFloat16: 2, p2p.Float64: 8, p2p.Int32: 4, p2p.Int64: 8, p2p.Uint8: 1,
	}
	for d, size := range sizes {
		back, err := p2p.ParseDType(d.String())
		if err != nil || back != d || d.Size() != size {
			t.Errorf("%v: parsed as %v (%v), size %d, want %d", d, back, err, d.Size(), size)
		}
	}
	for _, s := range []string{"", "float", "dtype(0)", "dtype(8)", "Float32"} {
		if d, err := p2p.ParseDType(s); err == nil {
			t.Errorf("parsed %q as %v", s, d)
		}
	}
	if p2p.DType(0).Size() != 0 || p2p.DType(200).Size() != 0 {
		t.Error("an unknown type has a size")
	}
}

func TestRequestTakesTheFirstCompletion(t *testing.T) {
	first := errors.New("first")
	r, c := p2p.NewRequest()
	select {
	case <-r.Done():
		t.Error("new request is complete")
	default:
	}
	c.Complete(first)
	c.Complete(nil)
	if err := r.Wait(context.Background()); !errors.Is(err, first) {
		t.Errorf("wait: %v", err)
	}
	var winners sync.Map
	r, c = p2p.NewRequest()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c.Complete(fmt.Errorf("from %d", i))
			winners.Store(r.Wait(context.Background()).Error(), true)
		})
	}
	wg.Wait()
	n := 0
	winners.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d different ends of one request", n)
	}
}

func TestExplained(t *testing.T) {
	fault := errors.New("fault")
	explain := func(_ context.Context, err error) error { return fmt.Errorf("rank 7: %w", err) }
	for name, end := range map[string]error{"well": nil, "with a fault": fault} {
		r, c := p2p.NewRequest()
		r = r.Explained(explain)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Wait(ended); !errors.Is(err, context.Canceled) || err.Error() != "wait for transfer: context canceled" {
			t.Errorf("wait for too long: %v", err)
		}
		c.Complete(end)
		for range 2 {
			err := r.Wait(t.Context())
			if !errors.Is(err, end) || end != nil && err.Error() != "rank 7: fault" {
				t.Errorf("ended %s: %v", name, err)
			}
		}
	}
}

func TestDead(t *testing.T) {
	err := p2p.Dead(3, p2p.ErrLength)
	if !errors.Is(err, p2p.ErrClosed) || !errors.Is(err, p2p.ErrLength) {
		t.Errorf("%v does not wrap both", err)
	}
	if err := p2p.Dead(3, p2p.ErrClosed); err.Error() != "use comm of rank 3: p2p: comm closed" {
		t.Error(err)
	}
}

func Example() {
	comms := inproc.World(2)
	defer comms[0].Close()
	defer comms[1].Close()
	ctx := context.Background()

	got := make([]byte, 5)
	recv := comms[1].Irecv(0, p2p.Bytes(got)) // post first: the bytes then have a place to go
	if err := p2p.Send(ctx, comms[0], 1, p2p.Bytes([]byte("hello"))); err != nil {
		fmt.Println(err)
		return
	}
	if err := recv.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("rank 1 of %d got %q\n", comms[1].Size(), got)
	// Output: rank 1 of 2 got "hello"
}

// driver completes what it is asked to drive, as a backend does that finds the bytes there already.
type driver struct {
	end     func()
	driven  int
	watched int
}

func (d *driver) Drive(context.Context, *p2p.Request) {
	d.driven++
	if d.end != nil {
		d.end()
	}
}

func (d *driver) Watched() { d.watched++ }

func TestWaitDrives(t *testing.T) {
	d := &driver{}
	r, c := p2p.NewDriven(d)
	d.end = func() { c.Complete(nil) }
	if err := r.Wait(t.Context()); err != nil || d.driven != 1 || d.watched != 0 {
		t.Errorf("wait: %v after %d drives, %d watches", err, d.driven, d.watched)
	}
	if err := r.Wait(t.Context()); err != nil || d.driven != 1 {
		t.Errorf("wait for what is complete: %v after %d drives", err, d.driven)
	}
	<-r.Done()
	if d.watched != 0 {
		t.Error("a request that is complete is watched")
	}

	d = &driver{}
	r, c = p2p.NewDriven(d)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Wait(ended); !errors.Is(err, context.Canceled) || d.driven != 0 {
		t.Errorf("wait with an ended context: %v after %d drives", err, d.driven)
	}
	done := r.Done()
	if d.watched == 0 {
		t.Error("nobody was told of one who watches")
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	c.Complete(nil)
	<-done
	wg.Wait()
	if !r.Ended() {
		t.Error("not ended")
	}
}
