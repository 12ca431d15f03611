package rafttransport

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

var sampleHeader = raft.RPCHeader{ProtocolVersion: 3, ID: []byte("leader"), Addr: []byte("leader")}

func crcOf(e *raft.Log) uint32 { return (&Transport{log: noLog{}}).checksum(e) }

type noLog struct{ Log }

func (noLog) Checksum(*raft.Log) (uint32, bool) { return 0, false }

// samples has one request of each kind.
func samples() map[string]struct {
	kind kind
	cmd  any
} {
	type sample = struct {
		kind kind
		cmd  any
	}
	h := sampleHeader
	return map[string]sample{
		"append": {kindAppend, &raft.AppendEntriesRequest{
			RPCHeader: h, Term: 7, PrevLogEntry: 40, PrevLogTerm: 6, LeaderCommitIndex: 39,
			Entries: []*raft.Log{
				{Index: 41, Term: 7, Type: raft.LogCommand, Data: []byte("hello"), AppendedAt: time.Unix(0, 1e18)},
				{Index: 42, Term: 7, Type: raft.LogNoop},
			},
		}},
		"heartbeat": {kindAppend, &raft.AppendEntriesRequest{RPCHeader: h, Term: 7}},
		"vote":      {kindVote, &raft.RequestVoteRequest{RPCHeader: h, Term: 7, LastLogIndex: 42, LastLogTerm: 6, LeadershipTransfer: true}},
		"prevote":   {kindPreVote, &raft.RequestPreVoteRequest{RPCHeader: h, Term: 7, LastLogIndex: 42, LastLogTerm: 6}},
		"timeout":   {kindTimeoutNow, &raft.TimeoutNowRequest{RPCHeader: h}},
		"install": {kindInstall, &raft.InstallSnapshotRequest{
			RPCHeader: h, SnapshotVersion: 1, Term: 7, LastLogIndex: 42, LastLogTerm: 6,
			Configuration: []byte("conf"), ConfigurationIndex: 3, Size: 1 << 33,
		}},
	}
}

func encode(t testing.TB, k kind, cmd any) []byte {
	t.Helper()
	b, err := appendHead(beginFrame(nil, k, 9, 4), "follower", cmd, crcOf)
	if err == nil {
		err = sealFrame(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden pins the bytes of every request and answer, and that they come back as they were.
func TestGolden(t *testing.T) {
	for name, s := range samples() {
		b := encode(t, s.kind, s.cmd)
		golden(t, name, b)
		f, err := newFrameReader(bytes.NewReader(b), maxHead).next()
		if err != nil {
			t.Fatal(err)
		}
		q, err := decodeRequest(f)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a, ok := q.cmd.(*raft.AppendEntriesRequest); ok && len(a.Entries) > 0 {
			if want := int64(5); q.size != want {
				t.Errorf("%d bytes of payload", q.size)
			}
			if le.Uint32(a.Entries[0].Extensions) != crcOf(&raft.Log{Data: []byte("hello")}) {
				t.Error("the CRC is not in Extensions")
			}
			a.Entries[0].Data = []byte("hello")
			for _, e := range a.Entries {
				e.Extensions = nil
			}
		}
		if q.to != "follower" || q.id != 9 || q.group != 4 || !reflect.DeepEqual(q.cmd, s.cmd) {
			t.Errorf("%s came back as %+v", name, q.cmd)
		}
	}
	q := &request{kind: kindAppend, id: 9, group: 4}
	for name, r := range map[string]reply{
		"answer": {term: 7, last: 42, success: true, noWait: true, version: 3},
		"error":  {status: statusRecipient, text: "not me"},
	} {
		b, err := appendReply(nil, q, r)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, b)
		f, err := newFrameReader(bytes.NewReader(b), maxHead).next()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeReply(f); err != nil || got != r {
			t.Errorf("%s came back as %+v, %v", name, got, err)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path, text := filepath.Join("testdata", name+".hex"), hex.Dump(got)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: the format has changed. Got\n%s", name, text)
	}
}

// heap is a Log on the heap that counts what it has given out.
type heap struct {
	noLog
	held, total int
}

func (h *heap) Alloc(n int) ([]byte, func(), error) {
	if n <= 0 {
		return nil, nil, errors.New("nothing asked for")
	}
	if h.total += n; h.total > 16<<20 {
		return nil, nil, errors.New("full")
	}
	h.held++
	return make([]byte, n), func() { h.held-- }, nil
}

// FuzzRequest reads frames and payloads from arbitrary bytes. What is decoded encodes to the same bytes.
func FuzzRequest(f *testing.F) {
	for _, s := range samples() {
		b := encode(f, s.kind, s.cmd)
		f.Add(append(b, "hello"...), false)
		f.Add(b[:len(b)-2], true)
	}
	f.Fuzz(func(t *testing.T, in []byte, fix bool) {
		if n := len(in) - frameHeader; fix && n >= 0 { // let mutations get past the CRC
			in = bytes.Clone(in)
			le.PutUint32(in, uint32(n))
			le.PutUint32(in[20:], frameCRC(in[:20], in[frameHeader:]))
		}
		r := newFrameReader(bytes.NewReader(in), maxHead)
		fr, err := r.next()
		if err != nil {
			return
		}
		frame := in[:frameHeader+len(fr.head)]
		q, err := decodeRequest(fr)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatal(err)
			}
			return
		}
		if q.kind == kindAppend {
			a := q.cmd.(*raft.AppendEntriesRequest)
			for i, e := range a.Entries {
				e.Data = make([]byte, q.parts[i].n)
			}
			again, err := appendHead(beginFrame(nil, q.kind, q.id, q.group), q.to, a, func(e *raft.Log) uint32 { return le.Uint32(e.Extensions) })
			if err != nil || sealFrame(again) != nil {
				t.Fatal(err)
			}
			// The three zero bytes after a type are not looked at; everything else comes back.
			if len(again) != len(frame) || len(a.Entries) == 0 && !bytes.Equal(again, frame) {
				t.Fatalf("decoded\n%x\nand encoded again\n%x", frame, again)
			}
			log := &heap{}
			release, err := receive(r.r, q, log, false)
			if err == nil {
				release()
			}
			if log.held != 0 {
				t.Fatalf("%d allocations are held", log.held)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	q := &request{kind: kindVote, id: 1, group: 2}
	for _, r := range []reply{{term: 1, success: true}, {status: statusRaft, text: "no"}} {
		b, err := appendReply(nil, q, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[frameHeader:])
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		r, err := decodeReply(frame{kind: kindVote + answered, id: 1, group: 2, head: head})
		if err != nil || len(r.text) > 4<<10 || r.status == statusFine && head[17] > 3 {
			return
		}
		again, err := appendReply(nil, q, r)
		if err != nil || !bytes.Equal(again[frameHeader:], head) {
			t.Fatalf("decoded %x and encoded again %x, %v", head, again[frameHeader:], err)
		}
	})
}

// TestDamagedPayload turns a bit of each payload on the wire.
func TestDamagedPayload(t *testing.T) {
	a := &raft.AppendEntriesRequest{RPCHeader: sampleHeader, Term: 7}
	var payloads []byte
	for i, n := range []int{100, 5, 0, ownSpace, 300} {
		e := &raft.Log{Index: uint64(i + 1), Term: 7, Data: bytes.Repeat([]byte{byte(i)}, n)}
		a.Entries = append(a.Entries, e)
		payloads = append(payloads, e.Data...)
	}
	head := encode(t, kindAppend, a)
	for at := -1; at < len(payloads); at += 50 {
		wire := append(bytes.Clone(head), payloads...)
		if at >= 0 {
			wire[len(head)+at] ^= 4
		}
		for _, trusted := range []bool{false, true} {
			r, log := newFrameReader(bytes.NewReader(wire), maxHead), &heap{}
			f, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			q, err := decodeRequest(f)
			if err != nil {
				t.Fatal(err)
			}
			release, err := receive(r.r, q, log, trusted)
			if want := at < 0 || trusted; (err == nil) != want || err != nil && !errors.Is(err, errMalformed) {
				t.Fatalf("bit of byte %d turned, trusted %v: %v", at, trusted, err)
			}
			if err == nil {
				release()
			}
			if log.held != 0 {
				t.Fatalf("%d allocations are held", log.held)
			}
		}
	}
}

// TestSplit compares split with its rules for many lengths.
func TestSplit(t *testing.T) {
	for _, lengths := range [][]int{{}, {0}, {5}, {10}, {11}, {5, 5}, {5, 6}, {11, 1}, {1, 11, 1}, {3, 3, 3, 3, 3, 3, 3}, make([]int, 3*maxEntries)} {
		a := &raft.AppendEntriesRequest{Term: 9, PrevLogEntry: 100, PrevLogTerm: 5, LeaderCommitIndex: 90}
		for i, n := range lengths {
			a.Entries = append(a.Entries, &raft.Log{Index: 101 + uint64(i), Term: 6 + uint64(i/2), Data: make([]byte, n)})
		}
		var all []*raft.Log
		prev, prevTerm := uint64(100), uint64(5)
		for _, p := range split(a, 10) {
			bytes := 0
			for _, e := range p.Entries {
				bytes += len(e.Data)
			}
			if bytes > 10 && len(p.Entries) > 1 || len(p.Entries) > maxEntries || len(p.Entries) == 0 && len(lengths) > 0 {
				t.Errorf("%v: a part of %d entries, %d bytes", lengths, len(p.Entries), bytes)
			}
			if p.Term != 9 || p.LeaderCommitIndex != 90 || p.PrevLogEntry != prev || p.PrevLogTerm != prevTerm {
				t.Errorf("%v: part %+v follows entry %d of term %d", lengths, p, prev, prevTerm)
			}
			if n := len(p.Entries); n > 0 {
				prev, prevTerm = p.Entries[n-1].Index, p.Entries[n-1].Term
			}
			all = append(all, p.Entries...)
		}
		if len(all) != len(lengths) || len(lengths) > 0 && !reflect.DeepEqual(all, a.Entries) {
			t.Errorf("%v: %d entries are left", lengths, len(all))
		}
	}
}
