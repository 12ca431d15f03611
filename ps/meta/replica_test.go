package meta_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/layout"
	"hcclps/ps/meta"
	"hcclps/ps/raftgroup"
	"hcclps/ps/raftlog"
	"hcclps/ps/snapshot"
	"hcclps/ps/wire"
)

const shards = 2

// fakeShards are shard groups that only know clocks and plans.
type fakeShards struct {
	mu      sync.Mutex
	clock   map[uint32]uint64
	held    map[uint32]wire.Plan
	ended   map[uint32][]string        // "3 force", "4 drop"
	refuse  string                     // answer to every hold
	onProbe func(f *fakeShards)        // runs under mu after a probe
	stall   map[uint32]<-chan struct{} // holds of a group wait for this
}

func newShards() *fakeShards {
	return &fakeShards{clock: map[uint32]uint64{}, held: map[uint32]wire.Plan{}, ended: map[uint32][]string{}, stall: map[uint32]<-chan struct{}{}}
}

func (f *fakeShards) Call(ctx context.Context, group uint32, m wire.Message) (wire.Answer, []byte, error) {
	if h, ok := m.(*wire.Hold); ok {
		f.mu.Lock()
		wait := f.stall[group]
		f.mu.Unlock()
		if wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
				return wire.Answer{}, nil, fmt.Errorf("hold plan %d at group %d: %w", h.Plan.ID, group, ctx.Err())
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch m := m.(type) {
	case *wire.Probe:
		a := wire.Answer{Clock: f.clock[group]}
		if f.onProbe != nil {
			f.onProbe(f)
		}
		return a, nil, nil
	case *wire.Hold:
		clock := f.clock[group]
		if f.refuse != "" {
			return wire.Answer{Status: wire.Refused, Detail: f.refuse}, nil, nil
		}
		if m.Plan.T <= clock && clock > 0 {
			return wire.Answer{Status: wire.Late}, nil, nil
		}
		f.held[group] = m.Plan
	case *wire.Release:
		if h, ok := f.held[group]; ok && h.ID == m.Plan {
			word := "force"
			if m.Drop {
				word = "drop"
			}
			f.ended[group] = append(f.ended[group], fmt.Sprint(m.Plan, " ", word))
			delete(f.held, group)
		}
	}
	return wire.Answer{}, nil, nil
}

func (f *fakeShards) endings(group uint32) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ended[group])
}

// replica is a meta group of one replica.
type replica struct {
	t     *testing.T
	group *meta.Group
	store *raftlog.Store
	stop  context.CancelCauseFunc
	ended chan error
}

func start(t *testing.T, dir string, f *fakeShards) *replica {
	t.Helper()
	store, err := raftlog.OpenStore(filepath.Join(dir, "store"), raftlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := raftlog.Open(raftlog.Config{Dir: filepath.Join(dir, "log"), Store: store, Budget: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	snaps, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(dir, "snapshots")})
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.New(layout.Config{Cluster: "c", Members: []layout.Member{{ID: "s1", Name: "s1", Addr: "s1"}}, Replicas: 1, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport("s1")
	g, err := meta.New(meta.Config{
		Self: "s1", Layout: func() layout.Layout { return l }, Log: log, Stable: store.Group(0), Snapshots: snaps,
		Transport: trans, Bootstrap: []string{"s1"}, Shards: f,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	r := &replica{t: t, group: g, store: store, stop: stop, ended: make(chan error, 1)}
	go func() {
		err := g.Run(ctx)
		_ = log.Close()
		_ = store.Close()
		r.ended <- err
	}()
	for !g.IsLeader() {
		pause(50 * time.Millisecond)
	}
	return r
}

// pause lets the bubble's time pass.
func pause(d time.Duration) { <-time.After(d) }

func (r *replica) end() {
	r.t.Helper()
	r.stop(nil)
	if err := <-r.ended; err != nil {
		r.t.Errorf("run: %v", err)
	}
}

func (r *replica) crash() {
	r.store.Freeze()
	r.stop(raftgroup.ErrCrash)
	if err := <-r.ended; err != nil {
		r.t.Errorf("run after a crash: %v", err)
	}
}

// answer is a Request that keeps what it is answered.
type answer struct{ head, body []byte }

func (a *answer) Body(context.Context) ([]byte, error) { return nil, nil }

func (a *answer) Reply(head []byte, body ...[]byte) error {
	a.head, a.body = head, slices.Concat(body...)
	return nil
}

// ask sends a request and decodes the reply.
func ask[T any](r *replica, kind wire.Kind, fields any) (wire.Answer, T) {
	r.t.Helper()
	head, err := wire.Control(kind, fields)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var got answer
	r.group.Serve(ctx, kind, head, &got)
	a, err := wire.DecodeAnswer(got.head)
	if err != nil {
		r.t.Fatal(err)
	}
	var reply T
	if len(got.body) > 0 {
		if err := json.Unmarshal(got.body, &reply); err != nil {
			r.t.Fatal(err)
		}
	}
	return a, reply
}

var params = wire.JobParams{World: 2, Parts: 1}

func (r *replica) open(worker string, rank uint32) wire.OpenReply {
	r.t.Helper()
	a, reply := ask[wire.OpenReply](r, wire.KindOpen, wire.OpenRequest{Job: "j", Worker: worker, Rank: rank, Params: params, Owner: "host, pid 1"})
	if a.Status != wire.OK {
		r.t.Fatalf("open %s: %v %s", worker, a.Status, a.Detail)
	}
	return reply
}

func ref(worker string, inc uint64) wire.SessionRef {
	return wire.SessionRef{Job: "j", Worker: worker, Incarnation: inc}
}

func (r *replica) renew(ref wire.SessionRef) wire.Answer {
	a, _ := ask[struct{}](r, wire.KindRenew, wire.RenewRequest{SessionRef: ref})
	return a
}

func (r *replica) table(name string) (wire.Answer, wire.Table) {
	return ask[wire.Table](r, wire.KindTable, wire.TableRequest{SessionRef: ref("a", 1), Table: wire.Table{Name: name, Dim: 4, Optimizer: "sgd"}})
}
