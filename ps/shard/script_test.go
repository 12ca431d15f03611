package shard

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the answers into testdata instead of comparing")

// TestApplyScripts runs the scripts of testdata/apply. A line that begins with a
// word is an entry; the indented lines after it are its answers. `#` is a
// comment. See script.run for the words.
func TestApplyScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/apply/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			sc := &script{t: t, s: NewState(StateConfig{HashSeed: 7}), params: wire.JobParams{World: 1, Parts: 1}}
			defer func() { _ = sc.s.Close() }()
			var got bytes.Buffer
			for line := range strings.Lines(string(want)) {
				line = strings.TrimRight(line, "\n")
				if strings.HasPrefix(line, "  ") {
					continue
				}
				fmt.Fprintln(&got, line)
				if line == "" || line[0] == '#' {
					continue
				}
				for _, out := range sc.run(strings.Fields(line)) {
					fmt.Fprintf(&got, "  %s\n", out)
				}
			}
			if *rewrite {
				if err := os.WriteFile(f, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != string(want) {
				t.Errorf("%s: got\n%s", f, firstDiff(got.String(), string(want)))
			}
		})
	}
}

func firstDiff(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got: %s\nwant: %s", i+1, g[i], w[i])
		}
	}
	return got
}

type script struct {
	t      *testing.T
	s      *State
	params wire.JobParams
	index  uint64
}

// args reads key=value words; a bare word is key with value "".
func args(words []string) map[string]string {
	m := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		m[k] = v
	}
	return m
}

func (sc *script) num(a map[string]string, key string) uint64 {
	sc.t.Helper()
	if a[key] == "" {
		return 0
	}
	n, err := strconv.ParseUint(a[key], 10, 64)
	if err != nil {
		sc.t.Fatalf("%s: %v", key, err)
	}
	return n
}

// person reads NAME/INCARNATION.
func (sc *script) person(s string) wire.Target {
	name, inc, ok := strings.Cut(s, "/")
	n, err := strconv.ParseUint(inc, 10, 64)
	if !ok || err != nil {
		sc.t.Fatalf("worker %q: want NAME/INCARNATION", s)
	}
	return wire.Target{Group: 1, Job: "j", Worker: name, Incarnation: n}
}

func (sc *script) run(words []string) []string {
	sc.t.Helper()
	a := args(words[1:])
	switch words[0] {
	case "job": // world= sync=bsp|ssp|asp parts= stale= sum
		sync := map[string]wire.Sync{"bsp": wire.BSP, "ssp": wire.SSP, "asp": wire.ASP}[a["sync"]]
		_, sum := a["sum"]
		sc.params = wire.JobParams{World: uint32(sc.num(a, "world")), Sync: sync, Parts: uint32(sc.num(a, "parts")), Staleness: uint32(sc.num(a, "stale")), Sum: sum}
		return nil
	case "fence": // NAME/INC rank=
		return sc.apply(wire.Entry{Message: sc.fence(words[1], a)})
	case "finish": // NAME/INC step=
		return sc.apply(wire.Entry{Message: &wire.Finish{Target: sc.person(words[1]), Step: sc.num(a, "step")}})
	case "push": // NAME/INC,... step= part= rows= cursor= rates=TABLE@FACTOR TABLE:KEY=VALUE,... (each contributor's)
		return sc.apply(wire.Entry{Steps: []wire.Item{sc.item(words[1:])}})
	case "hold": // id= t= table=ID [dim= policy= admit= evict=] | expel=NAME/INC | join=NAME/INC rank= | rate= | checkpoint= | stop
		return sc.apply(wire.Entry{Message: &wire.Hold{Group: 1, Job: "j", Plan: sc.plan(a)}})
	case "release": // id= [drop] [cuts=NAME:STEP,...]
		_, drop := a["drop"]
		return sc.apply(wire.Entry{Message: &wire.Release{Group: 1, Job: "j", Plan: sc.num(a, "id"), Drop: drop, Cuts: sc.cuts(a["cuts"])}})
	case "go": // id=
		return sc.apply(wire.Entry{Message: &wire.Checkpoint{Group: 1, Job: "j", ID: sc.num(a, "id"), Do: wire.CheckpointGo}})
	case "due": // whether a leader captures now
		j := sc.s.jobs["j"]
		return []string{fmt.Sprintf("at_cut=%v beyond=%v", j.atCut(), j.Cut != nil && j.beyond())}
	case "put": // NAME/INC load= table= [complete] KEY=VALUE,...
		return sc.apply(wire.Entry{Message: sc.put(words[1:])})
	case "sweep": // table= time= from= to=
		return sc.apply(wire.Entry{Message: &wire.Sweep{Group: 1, Job: "j", Table: uint32(sc.num(a, "table")), Time: sc.num(a, "time"), From: uint32(sc.num(a, "from")), To: uint32(sc.num(a, "to"))}})
	case "tables":
		var out []string
		for _, t := range sc.s.jobs["j"].Tables {
			s := t.status()
			out = append(out, fmt.Sprintf("%s rows=%d admitted=%d refused=%d evicted=%d waiting=%d", s.Name, s.Rows, s.Admitted, s.Refused, s.Evicted, s.Waiting))
		}
		return out
	case "row": // TABLE KEY
		id, _ := strconv.ParseUint(words[1], 10, 32)
		key, _ := strconv.ParseUint(words[2], 10, 64)
		t := sc.s.jobs["j"].table(uint32(id))
		if t == nil {
			return []string{"no table"}
		}
		r, ok := t.Rows.Row(key)
		if !ok {
			return []string{fmt.Sprintf("no row sightings=%d", t.Sightings(key))}
		}
		return []string{fmt.Sprintf("%v step=%d sightings=%d writer=%d", r.Values, r.Step, r.Sightings, r.Writer)}
	case "state":
		return sc.show()
	case "reload": // through a snapshot
		sc.s = reload(sc.t, sc.s)
		return nil
	default:
		sc.t.Fatalf("unknown word %q", words[0])
		return nil
	}
}

func (sc *script) fence(who string, a map[string]string) *wire.Fence {
	return &wire.Fence{Target: sc.person(who), Params: sc.params, Rank: uint32(sc.num(a, "rank")), Owner: "host"}
}

func (sc *script) put(words []string) *wire.Put {
	a := args(words[1:])
	_, complete := a["complete"]
	m := &wire.Put{Target: sc.person(words[0]), Load: sc.num(a, "load"), Table: uint32(sc.num(a, "table")), Complete: complete}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		if key, err := strconv.ParseUint(k, 10, 64); err == nil {
			m.Rows = wire.AppendRow(m.Rows, wire.Row{Key: key, Step: 9, Sightings: 3, Writer: 4, Values: floats(v)})
		}
	}
	return m
}

func floats(list string) []float32 {
	var out []float32
	for f := range strings.SplitSeq(list, ",") {
		x, _ := strconv.ParseFloat(f, 32)
		out = append(out, float32(x))
	}
	return out
}

func (sc *script) plan(a map[string]string) wire.Plan {
	p := wire.Plan{ID: sc.num(a, "id"), T: sc.num(a, "t")}
	switch {
	case a["table"] != "":
		p.Kind, p.Table = wire.PlanTable, testTable(uint32(sc.num(a, "table")), uint32(max(1, sc.num(a, "dim"))))
		if a["policy"] != "" {
			p.Table.NonFinite = a["policy"]
		}
		var err1, err2 error
		p.Table.Admit, err1 = wire.ParseAdmit(a["admit"])
		p.Table.Evict, err2 = wire.ParseEvict(a["evict"])
		if err := errors.Join(err1, err2); err != nil {
			sc.t.Fatal(err)
		}
	case a["expel"] != "":
		who := sc.person(a["expel"])
		p.Kind, p.Worker, p.Incarnation, p.Why = wire.PlanExpel, who.Worker, who.Incarnation, "its lease ended"
	case a["join"] != "":
		p.Kind, p.Join = wire.PlanJoin, *sc.fence(a["join"], a)
	case a["rate"] != "":
		r, _ := strconv.ParseFloat(a["rate"], 32)
		p.Kind, p.Rate = wire.PlanRate, float32(r)
	case a["checkpoint"] != "":
		p.Kind, p.Checkpoint = wire.PlanCheckpoint, sc.num(a, "checkpoint")
	default:
		p.Kind = wire.PlanStop
	}
	return p
}

// cuts reads NAME:STEP,...
func (sc *script) cuts(list string) (out []wire.Cut) {
	sc.t.Helper()
	for c := range strings.SplitSeq(list, ",") {
		name, step, ok := strings.Cut(c, ":")
		if n, err := strconv.ParseUint(step, 10, 64); ok && err == nil {
			out = append(out, wire.Cut{Worker: name, Step: n})
		}
	}
	return out
}

// testTable has weights of 0 and plain sgd with a rate of 1.
func testTable(id, dim uint32) wire.Table {
	return wire.Table{ID: id, Name: fmt.Sprintf("t%d", id), Dim: dim, Init: "zeros", Optimizer: "sgd", Params: map[string]float64{"lr": 1}, NonFinite: "reject"}
}

func (sc *script) item(words []string) wire.Item {
	a := args(words[1:])
	it := wire.Item{Job: "j", Step: sc.num(a, "step"), Part: uint32(sc.num(a, "part")), Rate: 1}
	if j := sc.s.jobs["j"]; j != nil {
		it.Rate = j.rate(it.Step)
	}
	if id, rate, ok := strings.Cut(a["rates"], "@"); ok {
		n, _ := strconv.ParseUint(id, 10, 32)
		it.Rates = []wire.TableRate{{Table: uint32(n), Rate: floats(rate)[0]}}
	}
	var body []byte
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		id, key, ok := strings.Cut(k, ":")
		if !ok {
			continue
		}
		var sec wire.Section
		n, _ := strconv.ParseUint(id, 10, 32)
		sec.Table = uint32(n)
		kk, _ := strconv.ParseUint(key, 10, 64)
		sec.Keys = []uint64{kk}
		sec.Values = floats(v)
		sec.Dim = len(sec.Values)
		body = wire.AppendSection(body, sec)
	}
	for who := range strings.SplitSeq(words[0], ",") {
		p := sc.person(who)
		c := wire.Contributor{Worker: p.Worker, Incarnation: p.Incarnation, Rows: uint32(sc.num(a, "rows")), Cursor: []byte(a["cursor"])}
		it.Divisor += uint64(c.Rows)
		it.Contributors = append(it.Contributors, c)
		it.Payloads = append(it.Payloads, body)
	}
	return it
}

func (sc *script) apply(e wire.Entry) []string {
	sc.t.Helper()
	sc.index++
	answers, err := sc.s.Apply(wire.AppendEntry(nil, e), sc.index, 1)
	if err != nil {
		return []string{"fault: " + err.Error()}
	}
	var out []string
	for _, a := range answers {
		out = append(out, show(a))
	}
	return out
}

func show(a wire.Answer) string {
	s := fmt.Sprintf("%v clock=%d done=%d @%d", a.Status, a.Clock, a.Done, a.Index)
	if a.Duplicate {
		s += " duplicate"
	}
	if cuts, err := wire.DecodeCuts(a.Cursor); err == nil && len(cuts) > 0 {
		s += fmt.Sprintf(" positions=%v", cuts)
	} else if len(a.Cursor) > 0 {
		s += fmt.Sprintf(" cursor=%s", a.Cursor)
	}
	if a.Checkpoint != 0 {
		s += fmt.Sprintf(" checkpoint %d before step %d", a.Checkpoint, a.Cut)
	}
	if a.Detail != "" {
		s += " | " + a.Detail
	}
	return s
}

func (sc *script) show() []string {
	j := sc.s.jobs["j"]
	out := []string{fmt.Sprintf("clock=%d parts=%b begun=%v applied=%d tables=%d", j.Clock, j.Parts, j.Begun, j.Applied, len(j.Tables))}
	for _, w := range j.Workers {
		out = append(out, fmt.Sprintf("%s/%d rank=%d %v done=%d from=%d parts=%b in_step=%v cursor=%s", w.Name, w.Incarnation, w.Rank, w.Session, w.Done, w.From, w.Parts, w.InStep, w.Cursor))
	}
	return out
}

// memory is a pageSink that keeps everything.
type memory struct {
	id, base string
	head     []byte
	pages    map[uint64][]byte
}

func (m *memory) ID() string                { return m.id }
func (m *memory) Base() string              { return m.base }
func (m *memory) Full() error               { m.base, m.pages = "", map[uint64][]byte{}; return nil }
func (m *memory) WriteHead(b []byte) error  { m.head = bytes.Clone(b); return nil }
func (m *memory) Write([]byte) (int, error) { return 0, nil }
func (m *memory) Close() error              { return nil }
func (m *memory) Cancel() error             { return nil }
func (m *memory) WritePage(id uint64, b []byte) error {
	m.pages[id] = bytes.Clone(b)
	return nil
}

// reload sends a state through a snapshot and closes it.
func reload(t testing.TB, s *State) *State {
	t.Helper()
	var lock sync.RWMutex
	c, err := s.capture(lock.RLocker(), &lastSnapshot{})
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{id: "x"}
	if err := c.Persist(m); err != nil {
		t.Fatal(err)
	}
	c.Release()
	n := m.state(t, s.cfg)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func (m *memory) state(t testing.TB, cfg StateConfig) *State {
	t.Helper()
	_, head, err := splitHead(m.head)
	if err != nil {
		t.Fatal(err)
	}
	n, err := decodeState(head, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for p := range table.Partitions {
		for slot := range n.slots {
			for page := uint32(0); ; page++ {
				id, _ := packPage(slot+1, table.PageID{Partition: uint16(p), Page: page})
				b, ok := m.pages[id]
				if !ok {
					break
				}
				if err := n.load(id, b); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return n
}
