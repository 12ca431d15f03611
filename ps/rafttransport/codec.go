package rafttransport

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
)

const (
	maxBatch   = 8 << 20   // bytes of payload that an append of several entries may have
	sendBatch  = 2 << 20   // that we send: two in flight fit into a small log, and groups take turns on the wire
	maxPayload = 256 << 20 // of an entry; logs allow less
	maxEntries = 8192      // in one append
	entryBytes = 36
)

// request is a decoded head.
type request struct {
	kind  kind
	id    uint64
	group uint32
	to    string
	cmd   any    // what Raft takes
	parts []part // of an append: where its payloads go
	size  int64  // bytes that follow the head
}

// part describes the payload of an entry.
type part struct {
	n   int
	crc uint32
}

// appendTo appends the fields that every request begins with.
func appendTo(b []byte, to string, h raft.RPCHeader) ([]byte, error) {
	if len(to) > math.MaxUint8 || len(h.ID) > math.MaxUint8 || len(h.Addr) > math.MaxUint8 {
		return b, fmt.Errorf("raft message to %q: a server id is longer than 255 bytes", to)
	}
	b = append(append(b, byte(len(to))), to...)
	b = append(b, byte(h.ProtocolVersion), byte(len(h.ID)))
	b = append(append(b, h.ID...), byte(len(h.Addr)))
	return append(b, h.Addr...), nil
}

// appendHead appends the head of any request. crc gives the CRC of an entry's payload.
func appendHead(b []byte, to string, cmd any, crc func(*raft.Log) uint32) ([]byte, error) {
	b, err := appendTo(b, to, cmd.(raft.WithRPCHeader).GetRPCHeader())
	if err != nil {
		return b, err
	}
	u64 := func(list ...uint64) {
		for _, v := range list {
			b = le.AppendUint64(b, v)
		}
	}
	switch a := cmd.(type) {
	case *raft.AppendEntriesRequest:
		u64(a.Term, a.PrevLogEntry, a.PrevLogTerm, a.LeaderCommitIndex)
		b = le.AppendUint32(b, uint32(len(a.Entries)))
		for _, e := range a.Entries {
			at := int64(0)
			if !e.AppendedAt.IsZero() {
				at = e.AppendedAt.UnixNano()
			}
			u64(e.Index, e.Term, uint64(at))
			b = le.AppendUint32(b, uint32(len(e.Data)))
			b = le.AppendUint32(b, crc(e))
			b = append(b, byte(e.Type), 0, 0, 0)
		}
	case *raft.RequestVoteRequest:
		u64(a.Term, a.LastLogIndex, a.LastLogTerm)
		b = append(b, bit(a.LeadershipTransfer, 1))
	case *raft.RequestPreVoteRequest:
		u64(a.Term, a.LastLogIndex, a.LastLogTerm)
	case *raft.TimeoutNowRequest:
	case *raft.InstallSnapshotRequest:
		b = append(b, byte(a.SnapshotVersion))
		u64(a.Term, a.LastLogIndex, a.LastLogTerm, a.ConfigurationIndex, uint64(a.Size))
		b = le.AppendUint32(b, uint32(len(a.Configuration)))
		b = append(b, a.Configuration...)
	default:
		return b, fmt.Errorf("raft message to %q: unknown type %T", to, cmd)
	}
	return b, nil
}

func bit(on bool, value byte) byte {
	if on {
		return value
	}
	return 0
}

// decodeRequest takes a request's head apart. It copies what it keeps.
func decodeRequest(f frame) (*request, error) {
	c := &cursor{b: f.head}
	q := &request{kind: f.kind, id: f.id, group: f.group, to: string(c.short())}
	h := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersion(c.u8()), ID: c.short(), Addr: c.short()}
	switch f.kind {
	case kindAppend:
		if err := q.decodeAppend(c, h); err != nil {
			return nil, err
		}
	case kindVote:
		q.cmd = &raft.RequestVoteRequest{RPCHeader: h, Term: c.u64(), LastLogIndex: c.u64(), LastLogTerm: c.u64(), LeadershipTransfer: c.u8() == 1}
	case kindPreVote:
		q.cmd = &raft.RequestPreVoteRequest{RPCHeader: h, Term: c.u64(), LastLogIndex: c.u64(), LastLogTerm: c.u64()}
	case kindTimeoutNow:
		q.cmd = &raft.TimeoutNowRequest{RPCHeader: h}
	case kindInstall:
		a := &raft.InstallSnapshotRequest{RPCHeader: h, SnapshotVersion: raft.SnapshotVersion(c.u8())}
		a.Term, a.LastLogIndex, a.LastLogTerm, a.ConfigurationIndex, a.Size = c.u64(), c.u64(), c.u64(), c.u64(), int64(c.u64())
		n := c.u32()
		if n > maxHead || a.Size < 0 {
			return nil, fmt.Errorf("%w: snapshot of %d bytes, configuration of %d", errMalformed, a.Size, n)
		}
		a.Configuration = c.bytes(int(n))
		q.cmd, q.size = a, a.Size
	default:
		return nil, fmt.Errorf("%w: kind %d is not a request", errMalformed, f.kind)
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *request) decodeAppend(c *cursor, h raft.RPCHeader) error {
	a := &raft.AppendEntriesRequest{RPCHeader: h, Term: c.u64(), PrevLogEntry: c.u64(), PrevLogTerm: c.u64(), LeaderCommitIndex: c.u64()}
	q.cmd = a
	n := int64(c.u32())
	if c.fail || n > maxEntries || n*entryBytes != int64(len(c.b)) {
		return fmt.Errorf("%w: %d entries in %d bytes", errMalformed, n, len(c.b))
	}
	if n == 0 {
		return nil
	}
	logs := make([]raft.Log, n)
	sums := make([]byte, 4*n)
	a.Entries, q.parts = make([]*raft.Log, n), make([]part, n)
	for i := range logs {
		e := &logs[i]
		e.Index, e.Term = c.u64(), c.u64()
		if at := int64(c.u64()); at != 0 {
			e.AppendedAt = time.Unix(0, at)
		}
		size, crc := c.u32(), c.u32()
		e.Type = raft.LogType(c.take(4)[0])
		e.Extensions = sums[4*i : 4*i+4 : 4*i+4]
		le.PutUint32(e.Extensions, crc)
		a.Entries[i], q.parts[i] = e, part{n: int(min(size, math.MaxInt32)), crc: crc}
		q.size += int64(size)
	}
	if q.size > maxPayload || n > 1 && q.size > maxBatch {
		return fmt.Errorf("%w: %d entries with %d bytes", errMalformed, n, q.size)
	}
	return nil
}

// split cuts an append into parts of at most limit bytes of payload, at least one entry each. The parts share the entries.
func split(a *raft.AppendEntriesRequest, limit int) []*raft.AppendEntriesRequest {
	var list []*raft.AppendEntriesRequest
	rest := a.Entries
	prev, prevTerm := a.PrevLogEntry, a.PrevLogTerm
	for {
		n, bytes := 0, 0
		for n < len(rest) && n < maxEntries && (n == 0 || bytes+len(rest[n].Data) <= limit) {
			bytes += len(rest[n].Data)
			n++
		}
		if n == len(rest) && list == nil {
			return []*raft.AppendEntriesRequest{a}
		}
		p := *a
		p.PrevLogEntry, p.PrevLogTerm, p.Entries = prev, prevTerm, rest[:n]
		list = append(list, &p)
		if rest = rest[n:]; len(rest) == 0 {
			return list
		}
		prev, prevTerm = p.Entries[n-1].Index, p.Entries[n-1].Term
	}
}

// isHeartbeat tells heartbeats from other appends as hashicorp/raft's own transport does.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.Term != 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// status is how a request ended.
type status uint8

const (
	statusFine status = iota
	statusRaft
	statusRecipient
	statusRefused
)

// reply is the answer to any request.
type reply struct {
	status  status
	text    string // of an error
	term    uint64
	last    uint64
	success bool // or granted
	noWait  bool // NoRetryBackoff
	version raft.ProtocolVersion
}

// refusal is a reply that Raft has not seen.
func refusal(format string, args ...any) reply {
	return reply{status: statusRefused, text: fmt.Sprintf(format, args...)}
}

// replyOf turns Raft's response into a reply.
func replyOf(r raft.RPCResponse) reply {
	if r.Error != nil {
		return reply{status: statusRaft, text: r.Error.Error()}
	}
	switch a := r.Response.(type) {
	case *raft.AppendEntriesResponse:
		return reply{term: a.Term, last: a.LastLog, success: a.Success, noWait: a.NoRetryBackoff, version: a.ProtocolVersion}
	case *raft.RequestVoteResponse:
		return reply{term: a.Term, success: a.Granted, version: a.ProtocolVersion}
	case *raft.RequestPreVoteResponse:
		return reply{term: a.Term, success: a.Granted, version: a.ProtocolVersion}
	case *raft.TimeoutNowResponse:
		return reply{version: a.ProtocolVersion}
	case *raft.InstallSnapshotResponse:
		return reply{term: a.Term, success: a.Success, version: a.ProtocolVersion}
	default:
		return refusal("raft gave no answer")
	}
}

// fill puts a reply into the response Raft has asked to be filled, or turns it into an error.
func (r reply) fill(from raft.ServerAddress, resp any) error {
	switch r.status {
	case statusFine:
	case statusRaft:
		return errors.New(r.text)
	case statusRecipient:
		return fmt.Errorf("%w: %s", link.ErrWrongRecipient, r.text)
	default:
		return fmt.Errorf("server %s: %s", from, r.text)
	}
	h := raft.RPCHeader{ProtocolVersion: r.version, ID: []byte(from), Addr: []byte(from)}
	switch a := resp.(type) {
	case *raft.AppendEntriesResponse:
		*a = raft.AppendEntriesResponse{RPCHeader: h, Term: r.term, LastLog: r.last, Success: r.success, NoRetryBackoff: r.noWait}
	case *raft.RequestVoteResponse:
		*a = raft.RequestVoteResponse{RPCHeader: h, Term: r.term, Granted: r.success}
	case *raft.RequestPreVoteResponse:
		*a = raft.RequestPreVoteResponse{RPCHeader: h, Term: r.term, Granted: r.success}
	case *raft.TimeoutNowResponse:
		*a = raft.TimeoutNowResponse{RPCHeader: h}
	case *raft.InstallSnapshotResponse:
		*a = raft.InstallSnapshotResponse{RPCHeader: h, Term: r.term, Success: r.success}
	}
	return nil
}

// appendReply appends the whole frame.
func appendReply(b []byte, q *request, r reply) ([]byte, error) {
	b = append(beginFrame(b, q.kind+answered, q.id, q.group), byte(r.status))
	if r.status == statusFine {
		b = le.AppendUint64(b, r.term)
		b = le.AppendUint64(b, r.last)
		b = append(b, bit(r.success, 1)|bit(r.noWait, 2), byte(r.version))
	} else {
		text := r.text[:min(len(r.text), 4<<10)]
		b = append(le.AppendUint16(b, uint16(len(text))), text...)
	}
	return b, sealFrame(b)
}

func decodeReply(f frame) (reply, error) {
	c := &cursor{b: f.head}
	r := reply{status: status(c.u8())}
	switch {
	case f.kind < answered:
		return r, fmt.Errorf("%w: kind %d is not an answer", errMalformed, f.kind)
	case r.status == statusFine:
		r.term, r.last = c.u64(), c.u64()
		flags := c.u8()
		r.success, r.noWait = flags&1 != 0, flags&2 != 0
		r.version = raft.ProtocolVersion(c.u8())
	case r.status <= statusRefused:
		r.text = string(c.bytes(int(le.Uint16(c.take(2)))))
	default:
		return r, fmt.Errorf("%w: status %d", errMalformed, r.status)
	}
	return r, c.end()
}
