package pstest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"hcclps/ps/wire"
	"hcclps/worker"
)

// Scenario is all that a run does: a pure function of its seed.
type Scenario struct {
	Seed   uint64
	Shards int
	Jobs   []JobPlan
	Faults []Fault // ascending At
}

// JobPlan is what the clients of one job do.
type JobPlan struct {
	Name    string
	Params  wire.JobParams
	Tables  []TablePlan
	Workers []WorkerPlan // by rank
	Changes []ChangePlan // made by rank 0
}

// TablePlan describes a table.
type TablePlan struct {
	Name string
	Spec worker.EmbeddingSpec
	From uint64 // each worker creates it before this step
	Keys []uint64
}

// WorkerPlan is what one worker does.
type WorkerPlan struct {
	Name  string
	Steps []StepPlan
	Leave bool // goes without Finish
}

// StepPlan is one step: think, read, act, push.
type StepPlan struct {
	Think time.Duration
	Reads []KeySet
	Rows  uint32
	Grads []KeySet
	Act   Act
	Wait  time.Duration // how long a short-lived try may last
	Back  uint64        // ActResend: how many steps back
	Part  uint32        // ActResend, ActEarly, ActPoison: which part
}

// KeySet is a table, by its index in the job, and ascending keys.
type KeySet struct {
	Table int
	Keys  []uint64
}

// Act is what a client does wrong, or suffers, in a step.
type Act string

// Acts.
const (
	ActNone    Act = ""
	ActResend  Act = "resend"  // an acknowledged step is sent again
	ActEarly   Act = "early"   // one part is sent before the step, which then sends it again
	ActPoison  Act = "poison"  // one part is sent with a NaN first
	ActHurry   Act = "hurry"   // the first try has a short deadline
	ActRestart Act = "restart" // the process dies before the push
	ActKill    Act = "kill"    // the process dies during the push
	ActZombie  Act = "zombie"  // the process is restarted while it pushes, and pushes on
	ActFresh   Act = "fresh"   // a linearizable read
	ActAbsent  Act = "absent"  // the process dies and is started again after its lease has ended
	ActAhead   Act = "ahead"   // the read of the next step is sent during the push
)

// ChangePlan is a plan that is asked for before a step.
type ChangePlan struct {
	Before uint64
	Kind   wire.PlanKind // PlanRate or PlanStop
	Rate   float32
}

// FaultKind is what breaks.
type FaultKind string

// Kinds of faults.
const (
	FaultCrash    FaultKind = "crash"    // a server is killed, and started again after For
	FaultRestart  FaultKind = "restart"  // a server is stopped, and started again after For
	FaultBlackout FaultKind = "blackout" // all servers are killed, and started again after For
	FaultCut      FaultKind = "cut"      // a server hears nobody and nobody hears it
	FaultDeaf     FaultKind = "deaf"     // a server hears nobody
	FaultDepose   FaultKind = "depose"   // the leader of a group is cut off
	FaultKill     FaultKind = "kill"     // all connections of a host break
	FaultDelay    FaultKind = "delay"    // all bytes are late
	FaultBreak    FaultKind = "break"    // connections break by chance
	FaultSnapshot FaultKind = "snapshot" // all servers take snapshots
	FaultAmnesia  FaultKind = "amnesia"  // a server loses its logs when it and one that lags could outvote the leader
)

// Fault happens once, at At after the start.
type Fault struct {
	Kind   FaultKind
	At     time.Duration
	For    time.Duration
	Server int    // 0, 1, 2
	Group  uint32 // FaultDepose
	Worker int    // FaultKill: -1, or this client's host instead of the server's
	Limit  time.Duration
	Chance float64
}

func (f Fault) String() string {
	return fmt.Sprintf("%s at %v for %v: server %d, group %d, worker %d, limit %v, chance %.3f", f.Kind, f.At, f.For, f.Server, f.Group, f.Worker, f.Limit, f.Chance)
}

// The size of a scenario.
const (
	servers = 3
	clients = 4
	shards  = 2
)

// maker draws a scenario.
type maker struct {
	rng *rand.Rand
	s   Scenario
}

// NewScenario makes the scenario of a seed.
func NewScenario(seed uint64) Scenario {
	m := maker{rng: rand.New(rand.NewPCG(seed, 0x5ca1ab1e)), s: Scenario{Seed: seed, Shards: shards}}
	if m.rng.IntN(4) == 0 {
		m.job("one", clients/2)
		m.job("two", clients-clients/2)
	} else {
		m.job("job", clients)
	}
	m.faults()
	return m.s
}

// Quiet is the scenario without faults and without acts.
func (s Scenario) Quiet() Scenario {
	s.Faults = nil
	s.Jobs = slices.Clone(s.Jobs)
	for j := range s.Jobs {
		s.Jobs[j].Workers = slices.Clone(s.Jobs[j].Workers)
		for w := range s.Jobs[j].Workers {
			steps := slices.Clone(s.Jobs[j].Workers[w].Steps)
			for i := range steps {
				steps[i].Act = ActNone
			}
			s.Jobs[j].Workers[w].Steps = steps
		}
	}
	return s
}

func (m *maker) job(name string, world int) {
	r := m.rng
	p := wire.JobParams{
		World: uint32(world), Sync: []wire.Sync{wire.BSP, wire.BSP, wire.SSP, wire.ASP}[r.IntN(4)],
		Parts: []uint32{1, 4}[r.IntN(2)], Sum: r.IntN(4) == 0, Seed: r.Uint64(),
	}
	if p.Sync == wire.SSP {
		p.Staleness = uint32(r.IntN(4))
	}
	steps := 16 + r.IntN(16)
	j := JobPlan{Name: name, Params: p}
	for i := range 1 + r.IntN(2) {
		j.Tables = append(j.Tables, m.table(p.Sync, fmt.Sprintf("table-%d", i), 0))
	}
	if r.IntN(2) == 0 {
		j.Tables = append(j.Tables, m.table(p.Sync, "late", uint64(2+r.IntN(steps-4))))
	}
	for i := range world {
		w := WorkerPlan{Name: fmt.Sprintf("%s-%d", name, i), Leave: i > 0 && r.IntN(8) == 0}
		for k := range uint64(steps - r.IntN(4)) {
			w.Steps = append(w.Steps, m.step(&j, k))
		}
		j.Workers = append(j.Workers, w)
	}
	if r.IntN(3) == 0 {
		away := j.Workers[r.IntN(world)]
		away.Steps[r.IntN(len(away.Steps))].Act = ActAbsent
	}
	if r.IntN(2) == 0 {
		j.Changes = append(j.Changes, ChangePlan{Before: uint64(1 + r.IntN(steps/2)), Kind: wire.PlanRate, Rate: []float32{0.5, 2, 0.25}[r.IntN(3)]})
	}
	if r.IntN(4) == 0 {
		j.Changes = append(j.Changes, ChangePlan{Before: uint64(steps * 3 / 4), Kind: wire.PlanStop})
	}
	m.s.Jobs = append(m.s.Jobs, j)
}

// table draws a table. Where the order of pushes is not known, sums must not
// depend on it: sgd over dyadic rationals that float32 holds exactly.
func (m *maker) table(sync wire.Sync, name string, from uint64) TablePlan {
	r := m.rng
	t := TablePlan{Name: name, From: from}
	t.Spec = worker.EmbeddingSpec{
		Dim: 1 + r.IntN(4), Optimizer: worker.Optimizer{Name: "sgd", Params: map[string]float64{"lr": 0.125}},
		Init: worker.Init{Name: "constant", Params: map[string]float64{"value": 1.5}},
	}
	if sync == wire.BSP && r.IntN(2) == 0 {
		t.Spec.Optimizer = worker.Optimizer{Name: "adagrad", Params: map[string]float64{"lr": 0.1, "eps": 1e-10, "initial_accumulator": 0.25}}
		t.Spec.Init = worker.Init{Name: "uniform", Params: map[string]float64{"low": -1, "high": 1}}
	}
	t.Keys = []uint64{0, ^uint64(0)}
	for range 14 {
		t.Keys = append(t.Keys, r.Uint64()>>r.IntN(60))
	}
	slices.Sort(t.Keys)
	t.Keys = slices.Compact(t.Keys)
	if sync == wire.BSP {
		t.Spec.Admit, t.Spec.Evict = keeping(t.Keys[1])
	}
	return t
}

// keeping draws rules of admission and eviction for half of the tables, from a number. What is evicted of rows that were seen a few steps ago depends on every
// step that was counted.
func keeping(from uint64) (admit worker.Admit, evict worker.Evict) {
	from ^= from >> 32
	if from%4 < 2 {
		admit = worker.Admit{Kind: wire.AdmitCount, Count: uint32(2 + from%2)}
	}
	if from>>3%4 < 2 {
		evict.Age = 2 + from>>5%6
	}
	return admit, evict
}

func (m *maker) step(j *JobPlan, step uint64) StepPlan {
	r := m.rng
	p := StepPlan{
		Think: time.Duration(r.IntN(800)) * time.Millisecond,
		Rows:  1 << r.IntN(4), Wait: time.Duration(1+r.IntN(300)) * time.Millisecond,
		Back: uint64(r.IntN(6)), Part: uint32(r.IntN(int(j.Params.Parts))),
	}
	if r.IntN(12) == 0 {
		p.Rows = 0 // a tick
	}
	for i, t := range j.Tables {
		if t.From > step {
			continue
		}
		p.Reads = append(p.Reads, KeySet{i, m.keys(t.Keys)})
		if p.Rows > 0 {
			p.Grads = append(p.Grads, KeySet{i, m.keys(t.Keys)})
		}
	}
	if r.IntN(5) < 2 {
		acts := []Act{ActResend, ActResend, ActEarly, ActEarly, ActPoison, ActHurry, ActHurry, ActFresh, ActFresh, ActAhead, ActRestart, ActKill, ActZombie}
		p.Act = acts[r.IntN(len(acts))]
	}
	return p
}

// keys draws a few of some keys, the first ones more often.
func (m *maker) keys(from []uint64) []uint64 {
	var keys []uint64
	for i, k := range from {
		if m.rng.IntN(2+i/4) == 0 {
			keys = append(keys, k)
		}
	}
	return keys
}

// faults draws faults that follow each other: at most one server at a time is
// away, except in a blackout. In some scenarios one server loses its logs, so
// that it is away for good.
func (m *maker) faults() {
	r := m.rng
	at := time.Duration(500+r.IntN(2500)) * time.Millisecond
	n := 3 + r.IntN(4)
	amnesia := -1
	if r.IntN(3) == 0 {
		amnesia = r.IntN(n)
	}
	for i := range n {
		f := m.fault(at)
		if i == amnesia {
			f.Kind, f.For, f.Group = FaultAmnesia, 6*time.Second, uint32(1+r.IntN(shards))
		}
		m.s.Faults = append(m.s.Faults, f)
		at += f.For/2 + time.Duration(r.IntN(2000))*time.Millisecond
		if f.away() {
			at = max(at, f.At+f.For+time.Second)
		}
	}
}

func (m *maker) fault(at time.Duration) Fault {
	r := m.rng
	kinds := []FaultKind{
		FaultCrash, FaultCrash, FaultRestart, FaultBlackout, FaultCut, FaultDeaf, FaultDepose, FaultDepose,
		FaultKill, FaultKill, FaultDelay, FaultBreak, FaultSnapshot, FaultSnapshot,
	}
	f := Fault{
		Kind: kinds[r.IntN(len(kinds))], At: at, For: time.Duration(200+r.IntN(4000)) * time.Millisecond,
		Server: r.IntN(servers), Group: uint32(r.IntN(shards + 1)), Worker: r.IntN(clients+2) - 2,
		Limit: time.Duration(1+r.IntN(60)) * time.Millisecond, Chance: 0.002 + 0.02*r.Float64(),
	}
	f.Worker = max(f.Worker, -1)
	if n := len(m.s.Faults); n > 0 && m.s.Faults[n-1].Kind == FaultSnapshot && r.IntN(2) == 0 {
		f.Kind = FaultBlackout // what comes back must come from the snapshots
	}
	return f
}

// away says whether the fault takes a server from the others.
func (f Fault) away() bool {
	switch f.Kind {
	case FaultCrash, FaultRestart, FaultBlackout, FaultCut, FaultDeaf, FaultDepose, FaultAmnesia:
		return true
	default:
		return false
	}
}

// value is one element of a gradient: a multiple of 1/8 between -4 and 4 that
// is not zero. Lives differ, as a restarted worker computes from other weights.
func value(w Who, seed, step uint64, table string, key uint64, d int) float32 {
	h := newMix(seed).text(w.Job).text(w.Worker).word(uint64(w.Life)).word(step).text(table).word(key).word(uint64(d))
	k := int(uint64(h)>>32%64) - 32
	if k >= 0 {
		k++
	}
	return float32(k) / 8
}

// mix is a small hash.
type mix uint64

func newMix(seed uint64) mix { return mix(seed) ^ 0x9e3779b97f4a7c15 }

func (m mix) word(v uint64) mix {
	h := (uint64(m) ^ v) * 0xff51afd7ed558ccd
	return mix((h ^ h>>32) * 0xc4ceb9fe1a85ec53)
}

func (m mix) text(s string) mix {
	for _, b := range []byte(s) {
		m = m.word(uint64(b))
	}
	return m.word(uint64(len(s)))
}
