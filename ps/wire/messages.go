package wire

import (
	"fmt"
	"math"
)

// Target names the shard and the session of a request. A step is one
// transaction per shard under the identity (Worker, step); Incarnation is the
// fence that tells a restarted worker from its own ghost.
type Target struct {
	Group       uint32 // Raft group: shard index + 1
	Job         string
	Worker      string
	Incarnation uint64
}

func (t *Target) fields(c *coder) {
	c.u32(&t.Group)
	c.str(&t.Job)
	c.str(&t.Worker)
	c.u64(&t.Incarnation)
}

// Push carries one part of a worker's step. Body: sections of gradients,
// summed over the batch's rows. Every step has exactly Parts parts; the last
// one is the closing part, and its Cursor is where the data goes on.
type Push struct {
	Target
	Step   uint64 // 0-based
	Part   uint32 // 0-based
	Parts  uint32 // parts a step, the job's number
	Rows   uint32 // rows of data behind the gradients
	Cursor []byte // data position after this step; closing part only; <= MaxCursor bytes
	Resent bool   // the same bytes were sent before
	Plain  uint64 // bytes of keys and values in the coded sections, once decoded; 0: none is coded
}

// MaxCursor bounds a data cursor.
const MaxCursor = 64

func (*Push) kind() Kind { return KindPush }
func (m *Push) fields(c *coder) {
	m.Target.fields(c)
	c.u64(&m.Step)
	c.u32(&m.Part)
	c.u32(&m.Parts)
	c.u32(&m.Rows)
	c.bytes(&m.Cursor)
	c.bool(&m.Resent)
	c.u64(&m.Plain)
	if c.read && len(m.Cursor) > MaxCursor {
		c.fail("cursor of %d bytes is over %d", len(m.Cursor), MaxCursor)
	}
}

// Infinity as the step of a Pull waits until every worker has finished.
const Infinity = ^uint64(0)

// Pull asks for weights. Body: sections with keys only. Answer body: the
// values of each section in order.
type Pull struct {
	Target
	Step  uint64 // bsp: exactly the pushes of earlier steps; ssp: the clock of the read; Infinity: all have finished
	Own   uint64 // the caller's acknowledged steps on this shard: the answer must hold them
	Term  uint64 // the highest (term, index) this session saw on this shard:
	Index uint64 // the answer must not be older
	Fresh bool   // linearizable: as of some moment after the request arrived
	Half  Half   // how values are answered
}

// Half says in how many bits values are answered, rounded to the nearest.
type Half uint8

// The forms of values.
const (
	Whole Half = iota // float32
	FP16              // binary16; beyond 65504 in magnitude it is that
	BF16              // bfloat16
)

// Size is the bytes of a value.
func (h Half) Size() int {
	if h == Whole {
		return 4
	}
	return 2
}

func (*Pull) kind() Kind { return KindPull }
func (m *Pull) fields(c *coder) {
	m.Target.fields(c)
	c.u64(&m.Step)
	c.u64(&m.Own)
	c.u64(&m.Term)
	c.u64(&m.Index)
	c.bool(&m.Fresh)
	c.u8((*uint8)(&m.Half))
	if c.read && m.Half > BF16 {
		c.fail("values in form %d", m.Half)
	}
}

// Fence opens incarnation Target.Incarnation of a worker at a shard; older
// ones are refused from then on. The answer's Done and Cursor say how far the
// worker is on this shard.
type Fence struct {
	Target
	Params JobParams
	Rank   uint32
	Owner  string // host, pid, when opened: shown to whoever is fenced off
}

func (*Fence) kind() Kind { return KindFence }
func (m *Fence) fields(c *coder) {
	m.Target.fields(c)
	m.Params.fields(c)
	c.u32(&m.Rank)
	c.str(&m.Owner)
}

// Sync is how the workers of a job wait for each other.
type Sync uint8

// The consistency models: bulk synchronous, stale synchronous, asynchronous.
const (
	BSP Sync = iota
	SSP
	ASP
)

// JobParams are fixed when a job's first worker opens it.
type JobParams struct { //nolint:recvcheck // String shows a copy, fields fills one in
	World     uint32 `json:"world"`     // workers
	Sync      Sync   `json:"sync"`      // BSP, SSP, ASP
	Staleness uint32 `json:"staleness"` // SSP: steps a read may lag
	Parts     uint32 `json:"parts"`     // parts a step
	Sum       bool   `json:"sum"`       // reduce by sum, not by mean over rows
	Seed      uint64 `json:"seed"`
	Data      string `json:"data,omitempty"` // what the batches are cut from, in words: a cursor means nothing on other data
}

// String shows the parameters to people.
func (p JobParams) String() string {
	sync := fmt.Sprintf("sync %d", p.Sync)
	if p.Sync <= ASP {
		sync = [...]string{"bsp", fmt.Sprintf("ssp:%d", p.Staleness), "asp"}[p.Sync]
	}
	reduce := "mean"
	if p.Sum {
		reduce = "sum"
	}
	return fmt.Sprintf("world %d, %s, %d parts, reduce %s, seed %d, data %q", p.World, sync, p.Parts, reduce, p.Seed, p.Data)
}

func (p *JobParams) fields(c *coder) {
	c.u32(&p.World)
	c.u8((*uint8)(&p.Sync))
	c.u32(&p.Staleness)
	c.u32(&p.Parts)
	c.bool(&p.Sum)
	c.u64(&p.Seed)
	c.str(&p.Data)
	if c.read && (p.World == 0 || p.Sync > ASP || p.Parts == 0 || p.Parts > MaxParts || len(p.Data) > MaxData) {
		c.fail("job parameters: %v", *p)
	}
}

// MaxData bounds the description of a job's data.
const MaxData = 1024

// MaxParts bounds the parts of a step (a bitmap of them is replicated state).
const MaxParts = 64

// Finish says that the worker has no step Step or later: its clock is lifted.
type Finish struct {
	Target
	Step uint64
}

func (*Finish) kind() Kind { return KindFinish }
func (m *Finish) fields(c *coder) {
	m.Target.fields(c)
	c.u64(&m.Step)
}

// Probe asks where a job is on a shard. The answer's Clock is the highest
// number of steps any worker has completed there, Done the lowest.
type Probe struct {
	Group uint32
	Job   string
}

func (*Probe) kind() Kind { return KindProbe }
func (m *Probe) fields(c *coder) {
	c.u32(&m.Group)
	c.str(&m.Job)
}

// Scan asks for up to Limit rows of a table with keys above After (from the
// lowest when First), ascending. Answer body: see AppendRow.
type Scan struct {
	Target
	Table uint32
	After uint64
	First bool
	Limit uint32
}

func (*Scan) kind() Kind { return KindScan }
func (m *Scan) fields(c *coder) {
	m.Target.fields(c)
	c.u32(&m.Table)
	c.u64(&m.After)
	c.bool(&m.First)
	c.u32(&m.Limit)
}

// Put writes rows of a table as they are, before the first step of a job: its
// start from saved parameters. The rows come as the body of the request, in the
// form of AppendRow, weights then optimizer slots; the leader puts them into
// Rows for the log. Load names what is being loaded: a shard takes one load a
// job, and once that is Complete, a Put of it answers OK and does nothing.
type Put struct {
	Target
	Load     uint64 // not 0
	Table    uint32
	Rule     RuleState // of the table's optimizer; Steps 0: nothing to set
	Rows     []byte
	Complete bool // these were the last
	// Wait asks only: OK if the load is complete here, Pending if not.
	Wait bool
}

func (*Put) kind() Kind { return KindPut }
func (m *Put) fields(c *coder) {
	m.Target.fields(c)
	c.u64(&m.Load)
	c.u32(&m.Table)
	m.Rule.fields(c)
	c.bytes(&m.Rows)
	c.bool(&m.Complete)
	c.bool(&m.Wait)
}

// RuleState is what an optimizer remembers of a table beside its rows: the
// steps, and powers that its bias correction needs.
type RuleState struct {
	Steps uint64     `json:"steps"`
	Pow   [2]float64 `json:"pow"`
}

func (r *RuleState) fields(c *coder) {
	c.u64(&r.Steps)
	for i := range r.Pow {
		u := math.Float64bits(r.Pow[i])
		c.u64(&u)
		r.Pow[i] = math.Float64frombits(u)
	}
}

// AppendRule writes the body of an answer to Rule.
func AppendRule(dst []byte, r RuleState) []byte {
	c := coder{buf: dst}
	r.fields(&c)
	return c.buf
}

// DecodeRule reads one.
func DecodeRule(b []byte) (RuleState, error) {
	var r RuleState
	c := coder{buf: b, read: true}
	r.fields(&c)
	return r, c.end()
}

// Rule asks for what a table's optimizer remembers. Answer body: see AppendRule.
type Rule struct {
	Target
	Table uint32
}

func (*Rule) kind() Kind { return KindRule }
func (m *Rule) fields(c *coder) {
	m.Target.fields(c)
	c.u32(&m.Table)
}
