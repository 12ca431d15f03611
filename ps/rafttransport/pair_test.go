package rafttransport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/inproc"
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
		if n := p.to.calls.Load(); n != 4 {
			t.Errorf("%d allocations", n)
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

// TestRefusals gets each error that does not cost the connection.
func TestRefusals(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		p.accept(func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
			return &raft.AppendEntriesResponse{Success: true}
		})
		send := func(n int) error {
			return p.leader.AppendEntries("follower", "follower", request(2, n, 10), new(raft.AppendEntriesResponse))
		}
		p.must(send(100))
		p.to.limit = 200 << 10
		if err := send(300 << 10); err == nil || !strings.Contains(err.Error(), "over the limit") {
			t.Errorf("log without space: %v", err)
		}
		p.from.refusePins.Store(1)
		if err := send(100); err == nil || !strings.Contains(err.Error(), "left the log") {
			t.Errorf("entries that have gone: %v", err)
		}
		stranger := p.nodes["leader"].mux.Group(77, p.from)
		if err := stranger.AppendEntries("follower", "follower", request(2, 5000), new(raft.AppendEntriesResponse)); err == nil || !strings.Contains(err.Error(), "group 77") {
			t.Errorf("unknown group: %v", err)
		}
		if err := p.leader.AppendEntries("x", "x", request(2, 1), new(raft.AppendEntriesResponse)); err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("unknown server: %v", err)
		}
		p.must(send(100))
		begun := time.Now()
		p.network.Kill("leader")
		p.must(send(100)) // goes out again by itself
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("redialled after %v", took)
		}
	})
}

// TestSilence cuts the wire: requests end by their time-outs, and after healing the next ones work.
func TestSilence(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		p.accept(func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
			return &raft.AppendEntriesResponse{Success: true}
		})
		p.follower.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil) })
		var resp raft.AppendEntriesResponse
		beat := request(1)
		beat.PrevLogTerm, beat.LeaderCommitIndex = 0, 0
		p.must(p.leader.AppendEntries("follower", "follower", beat, &resp))
		p.must(p.leader.AppendEntries("follower", "follower", request(2, 1<<20), &resp))
		p.network.Partition([]string{"leader"}, []string{"follower"})
		begun := time.Now()
		bulk := make(chan error, 1)
		go func() {
			bulk <- p.leader.AppendEntries("follower", "follower", request(2, 4<<20), new(raft.AppendEntriesResponse))
		}()
		if err := p.leader.AppendEntries("follower", "follower", beat, &resp); err == nil {
			t.Error("a heartbeat through a cut wire")
		}
		if err := <-bulk; err == nil {
			t.Error("an append through a cut wire")
		}
		if took := time.Since(begun); took > 5*time.Second { // the control connection notices for both
			t.Errorf("noticed after %v", took)
		}
		p.network.Heal()
		p.eventually("they talk again", func() bool {
			return p.leader.AppendEntries("follower", "follower", request(2, 100), &resp) == nil
		})
	})
}

// TestCloseEndsWaits closes a group whose requests wait for a silent peer.
func TestCloseEndsWaits(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		line, err := p.leader.AppendEntriesPipeline("follower", "follower")
		p.must(err)
		ended := make(chan error, 3)
		go func() {
			ended <- p.leader.RequestVote("follower", "follower", &raft.RequestVoteRequest{}, new(raft.RequestVoteResponse))
		}()
		go func() {
			ended <- p.leader.AppendEntries("follower", "follower", request(2, 1), new(raft.AppendEntriesResponse))
		}()
		go func() {
			f, err := line.AppendEntries(request(2, 20<<20), new(raft.AppendEntriesResponse))
			if err == nil {
				err = f.Error()
			}
			ended <- err
		}()
		synctest.Wait()
		begun := time.Now()
		p.must(p.leader.Close())
		for range 3 {
			if err := <-ended; !errors.Is(err, rafttransport.ErrClosed) {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

// TestSlowInstall has a raft that needs a minute for a snapshot, and one that never takes it.
func TestSlowInstall(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		data := bytes.Repeat([]byte("snapshot"), 200<<10)
		args := &raft.InstallSnapshotRequest{Term: 3, Size: int64(len(data)), Configuration: []byte("c")}
		go func() {
			rpc := <-p.follower.Consumer()
			got, err := io.ReadAll(rpc.Reader)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes arrived, %v", len(got), err)
			}
			<-time.After(time.Minute)
			rpc.Respond(&raft.InstallSnapshotResponse{Term: 3, Success: true}, nil)
		}()
		var resp raft.InstallSnapshotResponse
		p.must(p.leader.InstallSnapshot("follower", "follower", args, &resp, bytes.NewReader(data)))
		if !resp.Success {
			t.Error("not a success")
		}
		args.Size++
		go func() {
			rpc := <-p.follower.Consumer()
			if _, err := io.Copy(io.Discard, rpc.Reader); err == nil {
				_, err = rpc.Reader.Read(make([]byte, 1))
				rpc.Respond(nil, err)
				return
			}
			rpc.Respond(nil, errors.New("short"))
		}()
		if err := p.leader.InstallSnapshot("follower", "follower", args, &resp, bytes.NewReader(data)); err == nil {
			t.Error("a short snapshot was sent")
		}
		args.Size--
		if err := p.leader.InstallSnapshot("follower", "follower", args, &resp, bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("raft takes nothing: %v", err)
		}
	})
}

// TestHostileBytes writes what no server would write on connections that were accepted.
func TestHostileBytes(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		for _, purpose := range []link.Purpose{link.RaftControl, link.RaftBulk, link.RaftSnapshot, link.Control} {
			for _, text := range []string{strings.Repeat("\xff", 100), strings.Repeat("\x00", 100), "\x05\x00\x00\x00\x01\x00\x00\x00", ""} {
				mine, theirs := inproc.Pipe(0)
				p.mux.Accept(theirs, link.Hello{From: "leader", Purpose: purpose})
				if _, err := io.WriteString(mine, text); err != nil && purpose != link.Control {
					t.Error(err)
				}
				if len(text) < 24 && purpose != link.Control {
					if err := mine.Close(); err != nil {
						t.Error(err)
					}
					continue
				}
				if n, err := mine.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("%v answers to %q", purpose, text)
				}
				_ = mine.Close()
			}
		}
		synctest.Wait()
		if n := goroutines("rafttransport.(*inbound)"); n != 0 {
			t.Errorf("%d goroutines are left", n)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	_, err := rafttransport.New(rafttransport.Config{Timeout: -1})
	for _, want := range []string{"Network", "Resolve", "server id", "time-out"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v says nothing of %s", err, want)
		}
	}
	m, err := rafttransport.New(rafttransport.Config{
		Network: inproc.NewNetwork(), Self: "x", Timeout: time.Millisecond,
		Resolve: func(raft.ServerAddress) (string, error) { return "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	tr := m.Group(1, newHeapLog())
	if err := tr.TimeoutNow("y", "y", &raft.TimeoutNowRequest{}, nil); !errors.Is(err, rafttransport.ErrClosed) {
		t.Errorf("before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := m.Run(ctx); err == nil {
		t.Error("ran twice")
	}
}
