package wire

// SeenTable is the number under which a checkpoint has what a table's admission remembers.
func SeenTable(table uint32) uint32 { return table | 1<<31 }

// IsSeen says whether a table of a checkpoint is what another's admission remembers.
func IsSeen(table uint32) bool { return table&(1<<31) != 0 }

// SeenName is added to the name of a table there for what its admission remembers.
const SeenName = " (sightings)"

// Sweep tells a table the time, and lets it evict rows of partitions [From, To) that outlived theirs. Leaders log it; nobody may ask for it.
type Sweep struct {
	Group    uint32
	Job      string
	Table    uint32
	Time     uint64 // nanoseconds since 1970 by the leader's clock
	From, To uint32
}

func (*Sweep) kind() Kind { return KindSweep }
func (m *Sweep) fields(c *coder) {
	c.u32(&m.Group)
	c.str(&m.Job)
	c.u32(&m.Table)
	c.u64(&m.Time)
	c.u32(&m.From)
	c.u32(&m.To)
}

// Find asks for one row of a table. Answer body: see AppendFound.
type Find struct {
	Group uint32
	Job   string
	Table uint32
	Key   uint64
}

func (*Find) kind() Kind { return KindFind }
func (m *Find) fields(c *coder) {
	c.u32(&m.Group)
	c.str(&m.Job)
	c.u32(&m.Table)
	c.u64(&m.Key)
}

// Found is a row, or what stands for it.
type Found struct {
	There  bool   // false: Row holds the initial weights alone, and the sightings of a key that waits to be admitted
	Row    Row    // weights, then optimizer slots
	Writer string // who wrote it last, job/worker; empty: several together, or nobody
	Clock  uint64 // of the shard
}

func (f *Found) fields(c *coder) {
	c.bool(&f.There)
	f.Row.fields(c)
	c.str(&f.Writer)
	c.u64(&f.Clock)
}

// AppendFound writes the body of an answer to Find.
func AppendFound(dst []byte, f Found) []byte {
	c := coder{buf: dst}
	f.fields(&c)
	return c.buf
}

// DecodeFound reads one; the row does not alias it.
func DecodeFound(b []byte) (Found, error) {
	var f Found
	c := coder{buf: b, read: true}
	f.fields(&c)
	return f, c.end()
}
