package collective_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/collective"
	"hcclps/p2p/hccl"
	"hcclps/p2p/inproc"
)

var _ collective.Native = (*backend.Native)(nil)

// native makes a group of simulated NPUs that has their own collectives.
func native(t *testing.T, npus []*hccl.Device) *world {
	t.Helper()
	comms := paired(t, len(npus), func(ctx context.Context, rank, end int, conn net.Conn) (p2p.RunningComm, error) {
		return npus[rank].Pair(ctx, conn, end)
	})
	made := make([]*backend.Native, len(npus))
	var all sync.WaitGroup
	for r, comm := range comms {
		all.Go(func() {
			var err error
			if made[r], err = backend.NewNative(t.Context(), comm, npus[r], t.Name()); err != nil || made[r] == nil {
				t.Errorf("rank %d has %v: %v", r, made[r], err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return newWorldOver(t, comms, func(r int, c *collective.Config) { c.Native, c.Transport = made[r], "hccl" })
}

// HCCL's own collectives give what all others give, from memory of the host and of the device, and calls that differ are seen before they reach HCCL.
func TestNative(t *testing.T) {
	npus := devices(t, 3)
	deviceless(t, npus)
	w := native(t, npus)
	thinned(t, w, 5000)
	by := map[kind]collective.Algorithm{{p2p.Float32, collective.Sum}: collective.Natively, {p2p.BFloat16, collective.Prod}: collective.Mesh, {p2p.Float64, collective.Sum}: collective.Mesh}
	for k, want := range by {
		err := w.each(func(_ int, g *collective.Group) error {
			b := p2p.Bytes(tensor(k.t, 100, 1))
			work := g.AllReduce(b, b, k.t, k.r)
			if got := work.Call().Algorithm; (got == collective.Choice{Level1: collective.Natively}) != (want == collective.Natively) {
				t.Errorf("%v of %v is done by %v", k.r, k.t, got)
			}
			return work.Wait(t.Context())
		})
		if err != nil {
			t.Error(err)
		}
	}
	onDevices(t, w, npus)

	err := w.each(func(r int, g *collective.Group) error {
		b := p2p.Bytes(make([]byte, 4*(100+r/2)))
		return g.AllReduce(b, b, p2p.Float32, collective.Sum).Wait(t.Context())
	})
	if !errors.Is(err, collective.ErrMismatch) {
		t.Errorf("a rank with another count: %v", err)
	}
}

// onDevices sums memory of the devices.
func onDevices(t *testing.T, w *world, npus []*hccl.Device) {
	t.Helper()
	const n = 1000
	var ins [][]byte
	for r := range npus {
		ins = append(ins, tensor(p2p.Float32, n, uint64(r)))
	}
	err := w.each(func(r int, g *collective.Group) error {
		b, err := npus[r].Alloc(t.Context(), 4*n)
		if err != nil {
			return err
		}
		got := make([]byte, 4*n)
		err = errors.Join(
			npus[r].Write(t.Context(), b, ins[r]),
			g.AllReduce(b, b, p2p.Float32, collective.Sum).Wait(t.Context()),
			npus[r].Read(t.Context(), got, b),
		)
		if !bytes.Equal(got, reduced(p2p.Float32, collective.Sum, ins)) {
			err = errors.Join(err, errors.New("the sum on the device is wrong"))
		}
		for what, work := range map[string]*collective.Work{
			"an average":         g.AllReduce(b, b, p2p.Float32, collective.Avg),
			"a type it has not":  g.AllReduce(b, b, p2p.Float64, collective.Sum),
			"memory of two ends": g.AllReduce(b, p2p.Bytes(got), p2p.Float32, collective.Sum),
			"16 bits":            g.AllReduceAs(b, b, p2p.Float16, collective.Sum),
			"an operation":       g.Scatter(b, b, p2p.Float32, 0),
		} {
			if work.Wait(t.Context()) == nil {
				t.Errorf("%s of device memory is done", what)
			}
		}
		return errors.Join(err, npus[r].Free(t.Context(), b))
	})
	if err != nil {
		t.Error(err)
	}
}

// deviceless lets ranks of which one has no device go on without HCCL's collectives, both of them.
func deviceless(t *testing.T, npus []*hccl.Device) {
	t.Helper()
	comms := paired(t, 2, func(ctx context.Context, rank, end int, conn net.Conn) (p2p.RunningComm, error) {
		return npus[rank].Pair(ctx, conn, end)
	})
	var all sync.WaitGroup
	for r, device := range []*hccl.Device{npus[0], nil} {
		all.Go(func() {
			if n, err := backend.NewNative(t.Context(), comms[r], device, t.Name()); n != nil || err != nil {
				t.Errorf("rank %d has %v: %v", r, n, err)
			}
		})
	}
	all.Wait()
}

// refusing is a Native that can do everything, and has done what it notes.
type refusing struct {
	mu   sync.Mutex
	done []collective.Op
}

func (*refusing) Can(collective.Call) bool { return true }
func (*refusing) Close() error             { return nil }
func (r *refusing) Do(_ context.Context, c collective.Call, _, _ p2p.Buffer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, c.Op)
	return nil
}

// The backend's own collectives are for what has no order and no other algorithm pinned.
func TestNativeIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		algorithms string
		order      bool
		want       []collective.Op
	}{
		"free":   {want: []collective.Op{collective.AllReduce, collective.AllGather}},
		"order":  {order: true, want: []collective.Op{collective.AllGather}},
		"pinned": {algorithms: "allgather=native/allreduce=ring", want: []collective.Op{collective.AllGather}},
	} {
		t.Run(name, func(t *testing.T) {
			backends := []*refusing{{}, {}}
			w := newWorld(t, 2, func(r int, cfg *collective.Config) {
				var err error
				if cfg.Algorithms, err = collective.ParseAlgorithms(c.algorithms); err != nil {
					t.Error(err)
				}
				cfg.Native, cfg.RankOrder = backends[r], c.order
			})
			err := w.each(func(_ int, g *collective.Group) error {
				b, all := p2p.Bytes(make([]byte, 8)), p2p.Bytes(make([]byte, 16))
				return errors.Join(
					g.AllReduce(b, b, p2p.Float32, collective.Sum).Wait(t.Context()),
					g.AllGather(b, all, p2p.Float32).Wait(t.Context()),
					g.Gather(b, all, p2p.Float32, 0).Wait(t.Context()),
				)
			})
			if err != nil || !slices.Equal(backends[0].done, c.want) || !slices.Equal(backends[1].done, c.want) {
				t.Errorf("the backend did %v and %v, want %v: %v", backends[0].done, backends[1].done, c.want, err)
			}
		})
	}
	for _, c := range []collective.Config{
		{Algorithms: collective.Algorithms{collective.AllReduce: {Level1: collective.Natively}}},
		{Algorithms: collective.Algorithms{collective.AllReduce: {Level1: collective.Natively}}, Native: &refusing{}, RankOrder: true},
		{Algorithms: collective.Algorithms{collective.AllReduce: {Level0: collective.Natively, Level1: collective.Ring}}, Native: &refusing{}},
	} {
		c.Comm = inproc.World(2)[0]
		if _, err := collective.New(c); err == nil {
			t.Errorf("%v is taken", c.Algorithms)
		}
	}
}
