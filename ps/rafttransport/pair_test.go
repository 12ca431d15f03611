package rafttransport_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
	"hcclps/ps/rafttransport"
)

// pair is a leader's and a follower's transport of one group, without raft.
type pair struct {
	*cluster
	network          *p2ptest.Net
	leader, follower *rafttransport.Transport
	from, to         *heapLog
	mux              *rafttransport.Mux // the follower's
}

// withPair runs a test in a bubble.
func withPair(t *testing.T, test func(p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := p2ptest.NewNet(1)
		c := newCluster(t, 0, func(id string) link.Network { return network.Host(id) })
		p := &pair{cluster: c, network: network, from: newHeapLog(), to: newHeapLog()}
		p.leader = c.start("leader").mux.Group(5, p.from)
		p.mux = c.start("follower").mux
		p.follower = p.mux.Group(5, p.to)
		t.Cleanup(func() {
			for _, err := range []error{p.leader.Close(), p.follower.Close()} {
				if err != nil {
					t.Error(err)
				}
			}
			c.stopAll()
			if err := network.Close(); err != nil {
				t.Error(err)
			}
			if a, n := p.to.allocs.Load(), p.from.pins.Load(); a != 0 || n != 0 {
				t.Errorf("%d allocations and %d pins are held", a, n)
			}
		})
		test(p)
	})
}

// accept answers what the follower's raft would get until the follower is closed.
func (p *pair) accept(answer func(a *raft.AppendEntriesRequest) *raft.AppendEntriesResponse) {
	p.t.Cleanup(func() { _ = p.follower.Close() })
	go func() {
		for {
			select {
			case rpc := <-p.follower.Consumer():
				rpc.Respond(answer(rpc.Command.(*raft.AppendEntriesRequest)), nil)
			case <-p.t.Context().Done():
				return
			}
		}
	}()
}

// request makes an append whose entries have these lengths.
func request(first uint64, lengths ...int) *raft.AppendEntriesRequest {
	a := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("leader"), Addr: []byte("leader")},
		Term:      3, PrevLogEntry: first - 1, PrevLogTerm: 2, LeaderCommitIndex: 1,
	}
	for i, n := range lengths {
		a.Entries = append(a.Entries, &raft.Log{Index: first + uint64(i), Term: 3, Data: bytes.Repeat([]byte{byte(first) + byte(i)}, n)})
	}
	return a
}

// got is what the follower has seen.
type got struct {
	mu   sync.Mutex
	list []string
}

func (g *got) note(a *raft.AppendEntriesRequest) {
	bytes := 0
	for _, e := range a.Entries {
		bytes += len(e.Data)
		if crc32.Checksum(e.Data, castagnoli) != uint32(e.Extensions[0])|uint32(e.Extensions[1])<<8|uint32(e.Extensions[2])<<16|uint32(e.Extensions[3])<<24 {
			bytes = -1
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, fmt.Sprintf("%d entries, %d KiB after %d/%d", len(a.Entries), bytes>>10, a.PrevLogEntry, a.PrevLogTerm))
}

func (g *got) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := strings.Join(g.list, "; ")
	g.list = nil
	return s
}

// TestParts sends more than a message may hold, synchronously and by the pipeline, to a follower that agrees and to one that refuses.
func TestParts(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		var seen got
		refuse := uint64(0) // the first index that is refused
		p.accept(func(a *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
			seen.note(a)
			last := a.PrevLogEntry + uint64(len(a.Entries))
			return &raft.AppendEntriesResponse{Term: 3, LastLog: last, Success: refuse == 0 || last < refuse}
		})
		const mib = 1 << 20
		big := request(11, mib, mib, mib, mib/2, 9*mib, 1, 1)
		whole := "2 entries, 2048 KiB after 10/2; 2 entries, 1536 KiB after 12/3; 1 entries, 9216 KiB after 14/3; 2 entries, 0 KiB after 15/3"
		refusedAfter, _, _ := strings.Cut(whole, "; 1 entries")
		var resp raft.AppendEntriesResponse
		p.must(p.leader.AppendEntries("follower", "follower", big, &resp))
		if s := seen.take(); s != whole || !resp.Success || resp.LastLog != 17 {
			t.Fatalf("follower saw %s\nanswer %+v", s, resp)
		}
		refuse = 13
		p.must(p.leader.AppendEntries("follower", "follower", big, &resp))
		if s := seen.take(); s != refusedAfter || resp.Success || resp.LastLog != 14 {
			t.Fatalf("follower saw %s\nanswer %+v", s, resp)
		}

		line, err := p.leader.AppendEntriesPipeline("follower", "follower")
		p.must(err)
		for _, refuse = range []uint64{0, 13} {
			f, err := line.AppendEntries(big, new(raft.AppendEntriesResponse))
			p.must(err)
			if out := <-line.Consumer(); out != f || f.Error() != nil {
				t.Fatalf("%v came out, %v", out, f.Error())
			}
			if r := f.Response(); r.Success != (refuse == 0) || refuse == 0 && r.LastLog != 17 || refuse > 0 && r.LastLog != 14 {
				t.Fatalf("answer %+v", r)
			}
			synctest.Wait()
			if s := seen.take(); refuse == 0 && s != whole || !strings.HasPrefix(whole, s) {
				t.Fatalf("follower saw %s", s)
			}
		}
		p.must(line.Close())
	})
}

// TestPipelineOrder keeps many requests going and takes the answers in order.
func TestPipelineOrder(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		p.accept(func(a *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
			return &raft.AppendEntriesResponse{Success: true, LastLog: a.PrevLogEntry}
		})
		line, err := p.leader.AppendEntriesPipeline("follower", "follower")
		p.must(err)
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			for i := range uint64(300) {
				f := <-line.Consumer()
				if f.Error() != nil || f.Request().PrevLogEntry != i+1 || f.Response().LastLog != i+1 {
					t.Errorf("answer %d: %+v, %v", i, f.Response(), f.Error())
					return
				}
			}
		}()
		for i := range uint64(300) {
			if _, err := line.AppendEntries(request(i+2, int(i)*100, 10), new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
		}
		<-taken
		p.must(line.Close())
		if _, err := line.AppendEntries(request(2, 1), new(raft.AppendEntriesResponse)); err == nil {
			t.Error("a closed pipeline takes requests")
		}
		var resp raft.AppendEntriesResponse // the connection is still there
		p.must(p.leader.AppendEntries("follower", "follower", request(2, 1), &resp))
	})
}

// TestSharedSpace counts allocations: small neighbours share, big ones have their own.
func TestSharedSpace(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		p.accept(func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
			return &raft.AppendEntriesResponse{Success: true}
		})
		var resp raft.AppendEntriesResponse
		p.must(p.leader.AppendEntries("follower", "follower", request(2, 100, 0, 200, 70<<10, 64<<10, 5, 5), &resp))
		if n := p.to.calls.Swap(0); n != 4 {
			t.Errorf("%d allocations", n)
		}
		p.must(p.leader.AppendEntries("follower", "follower", request(2, slices.Repeat([]int{1000}, 300)...), &resp))
		if n := p.to.calls.Load(); n != 3 { // of at most 128 KiB each
			t.Errorf("%d allocations for 300 KB of small entries", n)
		}
	})
}

// TestStuckFollower has a raft that takes no appends of group 5: heartbeats and other groups go on, and what waits is bounded.
func TestStuckFollower(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		p.follower.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil) })
		other := p.mux.Group(6, newHeapLog())
		sender := p.nodes["leader"].mux.Group(6, newHeapLog())
		go func() {
			rpc := <-other.Consumer()
			rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
		}()
		var results sync.WaitGroup
		busy := make(chan error, 30)
		for range 30 {
			results.Go(func() {
				busy <- p.leader.AppendEntries("follower", "follower", request(2, 4<<20), new(raft.AppendEntriesResponse))
			})
		}
		synctest.Wait()
		if n := p.to.allocs.Load(); n < 8 || n > 9 {
			t.Errorf("%d appends are waiting in the follower", n)
		}
		begun := time.Now()
		var resp raft.AppendEntriesResponse
		for range 20 {
			beat := request(1)
			beat.PrevLogTerm, beat.LeaderCommitIndex = 0, 0
			p.must(p.leader.AppendEntries("follower", "follower", beat, &resp))
		}
		p.must(sender.AppendEntries("follower", "follower", request(2, 100), &resp))
		if took := time.Since(begun); took > 0 {
			t.Errorf("heartbeats and another group took %v", took)
		}
		results.Wait()
		close(busy)
		told := 0
		for err := range busy {
			if err == nil {
				t.Error("an append was answered")
			} else if strings.Contains(err.Error(), "busy") {
				told++
			}
		}
		if told < 20 {
			t.Errorf("%d were told that the follower is busy", told)
		}
	})
}
