package wire

// PlanKind is what a plan changes.
type PlanKind uint8

// Kinds of plans.
const (
	PlanTable      PlanKind = iota // a table exists: Table
	PlanJoin                       // an expelled worker is required again: Fence
	PlanExpel                      // a worker's lease ended or it left: Target.Worker
	PlanRate                       // learning rates are multiplied by Rate
	PlanStop                       // no step T or later
	PlanCheckpoint                 // the state after the steps below T is kept: Checkpoint
	PlanFork                       // a table exists, Table, with the rows that came before as Fork
)

// Plan is a change that takes effect at step T on every shard.
type Plan struct {
	ID    uint64   `json:"id"` // ascending per job
	Kind  PlanKind `json:"kind"`
	T     uint64   `json:"t"`
	Table Table    `json:"table,omitzero"`
	Join  Fence    `json:"join,omitzero"`
	// Worker, its Incarnation and Why: PlanExpel.
	Worker      string  `json:"worker,omitempty"`
	Incarnation uint64  `json:"incarnation,omitempty"`
	Why         string  `json:"why,omitempty"`
	Rate        float32 `json:"rate,omitempty"`
	// Checkpoint is its number: the meta log's index of the plan, or more. The meta group gives it.
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Base       uint64 `json:"base,omitempty"`  // the checkpoint it is a delta to, 0: full
	Every      uint64 `json:"every,omitempty"` // T is a multiple of it; 0: any
	Fork       uint64 `json:"fork,omitempty"`  // names the pieces (Restore.Load) that all shards have the whole of
	// Cuts say, under ssp and asp, up to where each worker goes before the state is kept.
	Cuts []Cut `json:"cuts,omitempty"`
}

// Cut is a worker's part in a checkpoint: its steps before Step.
type Cut struct {
	Worker string `json:"worker"`
	Step   uint64 `json:"step"`
}

// AppendCuts writes cuts as an answer to a Hold has them, in Cursor.
func AppendCuts(dst []byte, v []Cut) []byte {
	c := coder{buf: dst}
	cuts(&c, &v)
	return c.buf
}

// DecodeCuts reads them.
func DecodeCuts(b []byte) (v []Cut, err error) {
	c := coder{buf: b, read: true}
	cuts(&c, &v)
	return v, c.end()
}

func cuts(c *coder, v *[]Cut) {
	list(c, v, 12, func(w *Cut) {
		c.str(&w.Worker)
		c.u64(&w.Step)
	})
	if len(*v) == 0 {
		*v = nil
	}
}

func (p *Plan) fields(c *coder) {
	c.u64(&p.ID)
	c.u8((*uint8)(&p.Kind))
	c.u64(&p.T)
	switch p.Kind {
	case PlanTable:
		p.Table.fields(c)
	case PlanJoin:
		p.Join.fields(c)
	case PlanExpel:
		c.str(&p.Worker)
		c.u64(&p.Incarnation)
		c.str(&p.Why)
	case PlanRate:
		c.f32(&p.Rate)
	case PlanStop:
	case PlanCheckpoint:
		c.u64(&p.Checkpoint)
		c.u64(&p.Base)
	case PlanFork:
		p.Table.fields(c)
		c.u64(&p.Fork)
	default:
		c.fail("plan kind %d", p.Kind)
	}
}

// Hold asks a shard to log a plan before it applies step T; it answers OK
// (held), or Late when it is past T-1.
type Hold struct {
	Group uint32
	Job   string
	Plan  Plan
}

func (*Hold) kind() Kind { return KindHold }
func (m *Hold) fields(c *coder) {
	c.u32(&m.Group)
	c.str(&m.Job)
	m.Plan.fields(c)
}

// Release puts a held plan in force, or drops it.
type Release struct {
	Group uint32
	Job   string
	Plan  uint64
	Drop  bool
	Cuts  []Cut // of PlanCheckpoint
}

func (*Release) kind() Kind { return KindRelease }
func (m *Release) fields(c *coder) {
	c.u32(&m.Group)
	c.str(&m.Job)
	c.u64(&m.Plan)
	c.bool(&m.Drop)
	cuts(c, &m.Cuts)
}
