package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// CheckpointDo is what becomes of a shard's part of a checkpoint.
type CheckpointDo uint8

// What a Checkpoint message asks for.
const (
	CheckpointReport CheckpointDo = iota // how far is it; answer body: CheckpointPart as JSON
	CheckpointGo                         // logged: nobody waits for the capture any more
	CheckpointKeep                       // it is committed: the next one may stand on it
	CheckpointDrop                       // it is abandoned: give its space back
)

// Checkpoint is about a shard's part of a checkpoint.
type Checkpoint struct {
	Group uint32
	Job   string
	ID    uint64
	Do    CheckpointDo
}

func (*Checkpoint) kind() Kind { return KindCheckpoint }
func (m *Checkpoint) fields(c *coder) {
	c.u32(&m.Group)
	c.str(&m.Job)
	c.u64(&m.ID)
	c.u8((*uint8)(&m.Do))
	if c.read && m.Do > CheckpointDrop {
		c.fail("checkpoint: unknown wish %d", m.Do)
	}
}

// RestorePiece is what a Restore brings.
type RestorePiece uint8

// Pieces of a job, in this order; and those of one table that comes into a job, new or not, where nobody sees it before PlanFork.
const (
	RestoreHead  RestorePiece = iota // the job without rows, as ps/shard has made it; tables exist from here on
	RestorePages                     // pages of a table: see AppendPage
	RestoreEnd                       // these were all
	ForkTable                        // ForkedTable as JSON
	ForkPages                        // pages of it
	ForkEnd                          // these were all
)

// ForkedTable is a table of a checkpoint that comes into another job, or under another name.
type ForkedTable struct {
	Table Table     `json:"table"` // without an id, which PlanFork gives
	Rule  RuleState `json:"rule"`
}

// RestoredWhole is the Detail of the answer of a shard that has all of a restore; of a fork, one that is in force.
const RestoredWhole = "whole"

// Restore brings a piece of a job as a checkpoint has it, into a shard that does
// not know the job, or of a table. Data comes as the body of the request; the leader
// puts it into Data for the log. Each may be repeated.
type Restore struct {
	Group uint32
	Job   string
	Load  uint64 // names the restore, not 0
	Piece RestorePiece
	Table uint32 // RestorePages
	Data  []byte
}

func (*Restore) kind() Kind { return KindRestore }
func (m *Restore) fields(c *coder) {
	c.u32(&m.Group)
	c.str(&m.Job)
	c.u64(&m.Load)
	c.u8((*uint8)(&m.Piece))
	c.u32(&m.Table)
	c.bytes(&m.Data)
	if c.read && m.Piece > ForkEnd {
		c.fail("restore: unknown piece %d", m.Piece)
	}
}

// Page is a page of a table in a Restore.
type Page struct {
	Partition uint16
	Page      uint32
	Data      []byte
}

func (p *Page) fields(c *coder) {
	at := uint64(p.Partition)<<32 | uint64(p.Page)
	c.u64(&at)
	if c.read && at>>48 != 0 {
		c.fail("page %x", at)
	}
	p.Partition, p.Page = uint16(at>>32), uint32(at)
	c.bytes(&p.Data)
}

// AppendPage adds a page to the data of a Restore.
func AppendPage(dst []byte, p Page) []byte {
	c := coder{buf: dst}
	p.fields(&c)
	return c.buf
}

// DecodePages reads such data; the pages alias it.
func DecodePages(b []byte) ([]Page, error) {
	c := coder{buf: b, read: true}
	var pages []Page
	for c.off < len(b) && c.err == nil {
		var p Page
		p.fields(&c)
		pages = append(pages, p)
	}
	return pages, c.end()
}

// CheckpointsRequest asks for the checkpoint under way and how the last ones
// ended. Reply body: CheckpointsReply as JSON.
type CheckpointsRequest struct{}

// CheckpointsReply is what the meta group's leader knows.
type CheckpointsReply struct {
	Dir  string             `json:"dir"`           // where they are kept, "": nowhere
	Now  *CheckpointStatus  `json:"now,omitempty"` // under way
	Last []CheckpointStatus `json:"last"`          // ended, oldest first, a few
}

// CheckpointStatus is one checkpoint.
type CheckpointStatus struct {
	ID    uint64           `json:"id"`
	Job   string           `json:"job"`
	Step  uint64           `json:"step"`
	State string           `json:"state"`         // planned, writing, committed, abandoned
	Why   string           `json:"why,omitempty"` // abandoned
	Since time.Duration    `json:"since,omitempty"`
	Parts []CheckpointPart `json:"parts,omitempty"` // under way, ascending group
	Bytes int64            `json:"bytes,omitempty"` // committed: written for it
}

// CheckpointPart is how far a group's part of a checkpoint is.
type CheckpointPart struct {
	Group  uint32 `json:"group"`
	State  string `json:"state"`         // waiting, writing, done, failed
	Why    string `json:"why,omitempty"` // failed
	Pages  uint64 `json:"pages"`
	Bytes  int64  `json:"bytes"`
	Total  int64  `json:"total"` // bytes there will be, about
	New    int64  `json:"new"`
	Result []byte `json:"result,omitempty"` // done: JSON of ps/shard for the manifest
}

// States of a part.
const (
	PartWaiting = "waiting" // for the steps before the cut
	PartWriting = "writing" // the state is captured
	PartDone    = "done"
	PartFailed  = "failed"
)

// UploadRequest brings what a worker wants to find again in a checkpoint, as the
// body of the request. It is asked for once the worker has an answer
// with Answer.Checkpoint, for the moment before Answer.Cut. Under bsp the answer to the last push before it has both; under
// ssp and asp a worker may be beyond it when it learns of it, and brings nothing.
type UploadRequest struct {
	SessionRef
	Checkpoint uint64 `json:"checkpoint"`
	// Piece is the number of this piece, of Pieces that come one after the other; each may be repeated. Pieces 0 is 1.
	Piece  uint32 `json:"piece,omitempty"`
	Pieces uint32 `json:"pieces,omitempty"`
}

const (
	// UploadPiece is the most bytes of a piece of an upload: each is in a server's memory.
	UploadPiece = 8 << 20
	// MaxPieces bounds the pieces of an upload.
	MaxPieces = 1 << 16
)

// UploadUnwanted is the Detail of the answer to an upload into a checkpoint whose plan came too late on some shard: it is planned anew, and
// asks for the state of a later step.
const UploadUnwanted = "unwanted"

// UploadName is the name in a checkpoint of a piece of what a rank has uploaded.
func UploadName(rank, piece uint32) string {
	if piece == 0 {
		return fmt.Sprintf("worker/%d", rank)
	}
	return fmt.Sprintf("worker/%d/%d", rank, piece)
}

// ParseUpload reads such a name.
func ParseUpload(name string) (rank, piece uint32, ok bool) {
	rest, ok := strings.CutPrefix(name, "worker/")
	if !ok {
		return 0, 0, false
	}
	of, number, pieced := strings.Cut(rest, "/")
	r, err := strconv.ParseUint(of, 10, 32)
	p := uint64(0)
	if err == nil && pieced {
		p, err = strconv.ParseUint(number, 10, 32)
	}
	return uint32(r), uint32(p), err == nil && UploadName(uint32(r), uint32(p)) == name
}

// Restored says what a job was restored from.
type Restored struct {
	Checkpoint uint64 `json:"checkpoint"`
	Step       uint64 `json:"step"`
	Dir        string `json:"dir"` // the folder it was in
}

// ResumeRequest asks for what workers have uploaded into the checkpoint that a
// job was restored from, those of the ranks that the caller's stands for, as pieces ascending by rank: as many from number Skip on as have about
// UploadPiece bytes together. Reply body: see AppendBlob; none, when these were all, or the checkpoint is not there. What cannot be read is refused.
type ResumeRequest struct {
	SessionRef
	Skip uint32 `json:"skip,omitempty"`
}

// RankBlob is a piece of what a rank has uploaded.
type RankBlob struct {
	Rank uint32
	Data []byte
}

func (r *RankBlob) fields(c *coder) {
	c.u32(&r.Rank)
	c.bytes(&r.Data)
}

// AppendBlob adds a blob to the body of an answer to ResumeRequest.
func AppendBlob(dst []byte, r RankBlob) []byte {
	c := coder{buf: dst}
	r.fields(&c)
	return c.buf
}

// DecodeBlobs reads such a body; the blobs alias it.
func DecodeBlobs(b []byte) ([]RankBlob, error) {
	c := coder{buf: b, read: true}
	var blobs []RankBlob
	for c.off < len(b) && c.err == nil {
		var r RankBlob
		r.fields(&c)
		blobs = append(blobs, r)
	}
	if err := c.end(); err != nil {
		return nil, fmt.Errorf("blobs of ranks: %w", err)
	}
	return blobs, nil
}

// RestoreRequest begins and ends the restore of a job at the meta group. Between
// the two nobody can open the job.
type RestoreRequest struct {
	Job        string `json:"job"`
	Load       uint64 `json:"load"` // names the restore, not 0
	Checkpoint uint64 `json:"checkpoint"`
	Dir        string `json:"dir"`
	Step       uint64 `json:"step"`
	State      []byte `json:"state,omitempty"` // the job as ps/meta has written it; when it begins
	Complete   bool   `json:"complete"`        // it ends: all shards have it
}
