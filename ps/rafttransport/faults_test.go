package rafttransport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/ps/rafttransport"
)

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

// TestBackoff asks for a dead server all the time: it is dialled a few times a second, and found soon after it is back.
func TestBackoff(t *testing.T) {
	withPair(t, func(p *pair) {
		t := p.t
		p.stop("follower")
		var looked atomic.Int64
		p.lookedUp = func() { looked.Add(1) }
		vote := func() error {
			return p.leader.RequestVote("follower", "follower", &raft.RequestVoteRequest{}, new(raft.RequestVoteResponse))
		}
		begun, asked := time.Now(), 0
		for ; time.Since(begun) < 10*time.Second; asked++ {
			if err := vote(); err == nil || !strings.Contains(err.Error(), "follower") {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond)
		}
		if n := looked.Load(); n < 15 || n > 60 {
			t.Errorf("%d attempts in %d requests over 10 s", n, asked)
		}
		back := p.start("follower").mux.Group(5, p.to)
		go func() {
			rpc := <-back.Consumer()
			rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
		}()
		begun = time.Now()
		p.eventually("it is found", func() bool { return vote() == nil })
		if took := time.Since(begun); took > 600*time.Millisecond {
			t.Errorf("found after %v", took)
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
