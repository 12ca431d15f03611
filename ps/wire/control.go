package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// OpenRequest opens (or opens again) the session of a worker. Reply body:
// OpenReply as JSON.
type OpenRequest struct {
	Job    string    `json:"job"`
	Worker string    `json:"worker"`
	Rank   uint32    `json:"rank"`
	Params JobParams `json:"params"`
	Owner  string    `json:"owner"` // host, pid
	// State says that this worker uploads its state at each cut: see UploadRequest.
	State bool `json:"state,omitempty"`
	// Mode is that of training, for JobState; empty is ps.
	Mode string `json:"mode,omitempty"`
}

// OpenReply is what a worker needs to go to the shards.
type OpenReply struct {
	Incarnation uint64        `json:"incarnation"`
	Params      JobParams     `json:"params"`
	Tables      []Table       `json:"tables"`
	Owner       string        `json:"owner"` // as fences will show it
	Lease       time.Duration `json:"lease"`
	// Rejoin is set when the worker had been expelled: it is required again
	// from this step on.
	Rejoin *uint64 `json:"rejoin,omitempty"`
	// Restored is what the job began with; see ResumeRequest.
	Restored *Restored `json:"restored,omitempty"`
}

// SessionRef names a session at the meta group.
type SessionRef struct {
	Job         string `json:"job"`
	Worker      string `json:"worker"`
	Incarnation uint64 `json:"incarnation"`
}

// RenewRequest renews the lease of a session; the answer has no body.
type RenewRequest struct{ SessionRef }

// CloseRequest ends a session: after Finish nothing else happens; before it
// the worker leaves, by a plan.
type CloseRequest struct {
	SessionRef
	Finished bool `json:"finished"`
}

// TableRequest creates a table, or finds it. Reply body: Table as JSON, its id
// filled in; it is in force on every shard when the answer comes.
type TableRequest struct {
	SessionRef
	Table Table `json:"table"`
}

// ClaimRequest asks for the next range of batches under ssp and asp.
type ClaimRequest struct {
	SessionRef
	Have  uint64 `json:"have"`             // number of the claim whose batches are all pushed; 0: none yet
	EndOf uint32 `json:"end_of,omitempty"` // this epoch ...
	End   uint64 `json:"end,omitempty"`    // ... was found to have so many batches
	// Epochs is how many the job trains. When nothing of them is left but what
	// others are working on, the answer is to wait: one of them may die.
	Epochs uint32 `json:"epochs"`
}

// Claim is a range of batches of an epoch: [From, To). Reply body of a
// ClaimRequest, as JSON.
type Claim struct {
	Number uint64 `json:"number"`
	Epoch  uint32 `json:"epoch"`
	From   uint64 `json:"from"`
	To     uint64 `json:"to"`
	Wait   string `json:"wait,omitempty"` // no range yet: ask again; these workers have the last ones
}

// ClaimCursor is the data cursor that ssp and asp workers push: the claim they
// work on, and the next batch of it. The meta group reads it when a worker is
// expelled, to hand on just what was not pushed.
type ClaimCursor struct {
	Claim
	At uint64
}

const claimCursorSize = 40

// Append writes the cursor's bytes.
func (c ClaimCursor) Append(dst []byte) []byte {
	for _, v := range []uint64{c.Number, uint64(c.Epoch), c.From, c.To, c.At} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// DecodeClaimCursor reads one.
func DecodeClaimCursor(b []byte) (ClaimCursor, error) {
	if len(b) != claimCursorSize {
		return ClaimCursor{}, fmt.Errorf("%w: claim cursor of %d bytes, want %d", ErrMalformed, len(b), claimCursorSize)
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return ClaimCursor{Claim: Claim{Number: at(0), Epoch: uint32(at(1)), From: at(2), To: at(3)}, At: at(4)}, nil
}

// PlanRequest asks for a PlanRate, PlanStop, PlanCheckpoint or PlanFork. Reply body: Plan as JSON, with
// the step T at which it takes effect. A checkpoint may be asked for without a session, and a fork is: of
// SessionRef only Job is given then, which a fork makes if there is none.
type PlanRequest struct {
	SessionRef
	Plan Plan `json:"plan"`
}

// MaxNote is the most bytes of a note.
const MaxNote = 1 << 10

// ReadNote as Instead of a NoteRequest replaces nothing.
const ReadNote = 1<<64 - 1

// NoteRequest replaces the note of a job, which need not be open, if its number is Instead; 0: if there is none. Reply body: Note as JSON, the
// one that counts now. So processes that know nothing but the servers agree on something small, such as where they meet.
type NoteRequest struct {
	Job     string `json:"job"`
	Instead uint64 `json:"instead"`
	Text    string `json:"text"`
}

// Note is what a job's processes have written last; number 0: nothing.
type Note struct {
	Number uint64 `json:"number"`
	Text   string `json:"text"`
}

// StatusRequest asks a server what it sees. Reply body: ServerStatus as JSON.
type StatusRequest struct {
	Waiting bool `json:"waiting"`
}

// ServerStatus is one server's view.
type ServerStatus struct {
	Name    string        `json:"name"`
	ID      string        `json:"id"`
	Addr    string        `json:"addr"`
	Version string        `json:"version"`
	Uptime  time.Duration `json:"uptime"`
	Time    time.Time     `json:"time"` // the server's clock at the answer
	Rows    int64         `json:"rows"`
	Bytes   int64         `json:"bytes"` // of tables
	Groups  []GroupStatus `json:"groups"`
	Pairs   []PairStatus  `json:"pairs,omitempty"`
	Memory  MemoryStatus  `json:"memory"`
}

// MemoryStatus is the memory of a server's tables, and what of them is outside.
type MemoryStatus struct {
	Limit    int64 `json:"limit"`     // bytes meant for tables
	Used     int64 `json:"used"`      // bytes of tables, and of the cold store
	ColdRows int64 `json:"cold_rows"` // in the cold store
	Disk     int64 `json:"disk"`      // bytes of the cold store, as of the last minute
	Misses   int64 `json:"misses"`    // pieces of tables that were asked for and cold
	Read     int64 `json:"read"`      // bytes of them read
	Written  int64 `json:"written"`   // bytes of them written
}

// PairStatus is what carries the bulk of a pair that was made with this server, one of the latest, and why.
type PairStatus struct {
	Peer      string    `json:"peer"` // its address
	Transport string    `json:"transport"`
	Reason    string    `json:"reason"`
	Since     time.Time `json:"since"` // by the server's clock
}

// GroupStatus is one replica of a group.
type GroupStatus struct {
	Group     uint32      `json:"group"`
	State     string      `json:"state"` // leader, follower, candidate
	Leader    string      `json:"leader"`
	Term      uint64      `json:"term"`
	Applied   uint64      `json:"applied"`
	Last      uint64      `json:"last"`
	LogBytes  int64       `json:"log_bytes"`
	Elections uint64      `json:"elections"` // times this replica became leader
	Jobs      []JobStatus `json:"jobs,omitempty"`
	Durable   string      `json:"durability"`
	// Digest is a hash of a shard's state and the entry after which it was taken;
	// replicas that have applied the same entries have the same.
	Digest string `json:"digest,omitempty"`
}

// JobStatus is a job on a replica.
type JobStatus struct {
	Job       string         `json:"job"`
	Clock     uint64         `json:"clock"`
	Applied   uint64         `json:"applied_pushes"`   // (worker, step) applied
	Duplicate uint64         `json:"duplicate_pushes"` // answered from a stored answer by this replica since its start
	Workers   []WorkerStatus `json:"workers"`
	Waiting   []Wait         `json:"waiting,omitempty"`
	Tables    []TableStatus  `json:"tables,omitempty"`
	Forks     []TableStatus  `json:"forks,omitempty"` // tables of a checkpoint on their way into the job, that workers do not see; they have no ID yet
}

// TableStatus is a table on a replica.
type TableStatus struct {
	ID           uint32   `json:"id"`
	Name         string   `json:"name"`
	Dim          uint32   `json:"dim"`
	Shape        []uint32 `json:"shape,omitempty"` // of a dense tensor
	Admit        string   `json:"admit,omitempty"`
	Evict        string   `json:"evict,omitempty"`
	Rows         int64    `json:"rows"`
	Bytes        int64    `json:"bytes"`                   // all memory, WaitingBytes with it
	Admitted     uint64   `json:"admitted"`                // rows ever made
	Refused      uint64   `json:"refused"`                 // gradients of keys that were not admitted
	Evicted      uint64   `json:"evicted"`                 // rows
	Waiting      int64    `json:"waiting,omitempty"`       // keys with sightings and without a row; of a Bloom filter its blocks
	WaitingBytes int64    `json:"waiting_bytes,omitempty"` // of what admission remembers
	ColdRows     int64    `json:"cold_rows,omitempty"`     // of Rows, in the cold store
	ColdBytes    int64    `json:"cold_bytes,omitempty"`    // of them there; not in Bytes
	Looked       int64    `json:"looked,omitempty"`        // keys that were looked for while rows were cold
	Misses       int64    `json:"misses,omitempty"`        // pieces of the table (up to 8 rows) that were looked for and cold
}

// WorkerStatus is a worker on a replica.
type WorkerStatus struct {
	Worker      string `json:"worker"`
	Rank        uint32 `json:"rank"`
	Incarnation uint64 `json:"incarnation"`
	Done        uint64 `json:"done"`
	State       string `json:"state"` // open, finished, expelled
	Owner       string `json:"owner"`
	// Restores is how often the job came from a checkpoint since the worker began: each takes two incarnations.
	Restores uint64 `json:"restores,omitempty"`
}

// Wait says who waits for whom, and since when.
type Wait struct {
	Who   string        `json:"who"`
	What  string        `json:"what"` // "push of step 7", "pull of step 8", "step 0"
	For   []string      `json:"for"`  // workers or servers that are missing
	Since time.Duration `json:"since"`
}
