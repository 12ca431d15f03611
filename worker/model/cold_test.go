package model

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/ps/wire"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// The sizes of TestCold: small where all tests run; .ci/accept gives those that prove something.
var (
	coldRows  = flag.Int("cold-rows", 150_000, "TestCold: `ROWS` of the table")
	coldBatch = flag.Int("cold-batch", 32, "TestCold: rows of data in a batch")
	coldSteps = flag.Int("cold-steps", 12, "TestCold: batches")
	coldTimes = flag.Int64("cold-times", 5, "TestCold: size of the table, by that of the memory for tables")

	coldServer  = flag.String("cold-server", "", "TestColdServer: `ADDRESS` of a server without replication")
	coldPID     = flag.Int("cold-pid", 0, "TestColdServer: number of that server's `PROCESS`, whose files and CPU are counted; 0: they are not")
	coldTrained = flag.String("cold-trained", "", "TestColdServer: `FILE` that is made when it has trained, before all rows are read for the digest")
	coldReport  = flag.String("cold-report", "", "TestColdServer: `FILE` of the report")
)

// TestCold trains a deep model on a click log whose ids follow Zipf's law, 1.1, with a table in memory and with one of several times the memory for
// tables: the parameters are the same. It prints what that costs.
func TestCold(t *testing.T) {
	log := newClickLog(*coldRows, *coldBatch, *coldSteps)
	inMemory := log.trainLocally(t, 0)
	cold := log.trainLocally(t, inMemory.Table / *coldTimes)
	t.Logf("in memory: %+v", inMemory)
	t.Logf("cold: %+v", cold)
	if cold.Digest != inMemory.Digest || cold.Digest == "" {
		t.Errorf("parameters are %s, with all rows in memory %s", cold.Digest, inMemory.Digest)
	}
	if cold.ColdRows == 0 {
		t.Error("no row was cold")
	}
}

// TestColdServer trains once on a server that somebody has started, and writes what it cost: .ci/accept compares servers with it.
func TestColdServer(t *testing.T) {
	if *coldServer == "" {
		t.Skip("no -cold-server")
	}
	network, err := backend.OpenSockets(backend.Sockets{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := link.NewClient(link.Config{Network: network, Pair: backend.Pair, Cluster: ps.DefaultCluster, ID: "cold"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = client.Run(ctx) }()
	c, err := worker.Connect(ctx, worker.Config{Job: "clicks", Servers: []string{*coldServer}, Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	r := newClickLog(*coldRows, *coldBatch, *coldSteps).train(t, c, func() wire.ServerStatus {
		s, err := worker.ServerStatus(ctx, client, *coldServer, false)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	if err := os.WriteFile(*coldReport, []byte(r.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// clickLog is batches for a deep model, and the order in which its ids would have come in a long log.
type clickLog struct {
	schema *dataset.Schema
	order  []uint64
	all    []dataset.Batch
}

func newClickLog(rows, batch, steps int) *clickLog {
	l := &clickLog{schema: &dataset.Schema{}}
	for f := range 26 {
		l.schema.Features = append(l.schema.Features, dataset.Feature{Name: fmt.Sprintf("c%d", f), Kind: dataset.KindID, Table: "ids"})
	}
	for f := range 13 {
		l.schema.Features = append(l.schema.Features, dataset.Feature{Name: fmt.Sprintf("n%d", f), Kind: dataset.KindNumeric, Transform: dataset.TransformRaw})
	}
	const skew = 1.1
	rng := rand.New(rand.NewPCG(1, 7))
	rank := ranks(rows, skew)
	for range steps {
		l.all = append(l.all, clicks(rng, l.schema, batch, func(r *rand.Rand) uint64 { return uint64(rank(r)) }))
	}
	// The first appearance of an id in a stream is exponential, by its frequency.
	type arrival struct {
		at float64
		id uint64
	}
	came := make([]arrival, rows)
	for i := range came {
		came[i] = arrival{rng.ExpFloat64() * math.Pow(float64(i+1), skew), uint64(i)}
	}
	slices.SortFunc(came, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	for _, a := range came {
		l.order = append(l.order, a.id)
	}
	return l
}

// coldRun is what came of a training.
type coldRun struct {
	Digest   string  `json:"digest"`
	Rate     float64 `json:"rate"`  // rows of data a second
	Table    int64   `json:"table"` // bytes of the server's tables at the end
	Limit    int64   `json:"limit"` // bytes meant for tables
	Most     int64   `json:"most"`  // in use at most
	Rows     int64   `json:"rows"`
	ColdRows int64   `json:"cold_rows"`
	Misses   float64 `json:"misses"`  // pieces of tables a batch
	Read     float64 `json:"read"`    // bytes of the store a batch
	Written  float64 `json:"written"` // likewise

	// Of the server's process while it trained, where it is known: bytes from and to files by those of Read and Written, and seconds of CPU a batch.
	ReadTimes  float64 `json:"read_times"`
	WriteTimes float64 `json:"write_times"`
	CPU        float64 `json:"cpu"`
}

// String is a line of JSON.
func (r coldRun) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(b) + "\n"
}

// trainLocally trains on a server in this process; memory is that of tables, 0 for more than enough.
func (l *clickLog) trainLocally(t *testing.T, memory int64) coldRun {
	t.Helper()
	servers := ps.LocalConfig{Servers: 1, Scratch: true}
	if memory > 0 {
		memory = max(memory, 16<<20)                              // a server's least
		servers.Memory = max(memory*8/5, (memory+16<<20)*8/7) + 1 // of which a quarter, or 16 MiB, is for pushes and an eighth for copies
	}
	local := pstest.Serve(t, servers)
	return l.train(t, connect(t, local, worker.Config{Job: "clicks"}), func() wire.ServerStatus { return local.Servers()[0].Status(false) })
}

// train fills the table and trains.
func (l *clickLog) train(t *testing.T, c *worker.Client, status func() wire.ServerStatus) (out coldRun) {
	t.Helper()
	look := func() wire.ServerStatus {
		s := status()
		out.Most = max(out.Most, s.Memory.Used)
		return s
	}
	m, err := NewWideDeep(t.Context(), c, l.schema, Options{Hidden: []int{256, 128, 64}})
	if err != nil {
		t.Fatal(err)
	}
	const piece = 1 << 14
	ids := m.fields.fields[0].rows
	for at := 0; at < len(l.order); at += piece {
		keys := slices.Clone(l.order[at:min(at+piece, len(l.order))])
		slices.Sort(keys)
		if err := c.Push(t.Context(), 1, nil, worker.Gradient{Table: ids, Keys: keys, Values: make([]float32, len(keys)*int(ids.Dim))}); err != nil {
			t.Fatal(err)
		}
		look()
	}
	before, process := look(), processUse(t, *coldPID)
	began := time.Now()
	src := &watched{limited: &limited{batches: &batches{all: l.all}, steps: len(l.all)}, each: func() { look() }}
	if _, err := c.Train(t.Context(), m, src, worker.TrainOptions{}); err != nil {
		t.Fatal(err)
	}
	took, n := time.Since(began), float64(len(l.all))
	s := look()
	out.Rate = n * float64(l.all[0].Rows) / took.Seconds()
	out.Table, out.Limit, out.Rows, out.ColdRows = s.Bytes, s.Memory.Limit, s.Rows, s.Memory.ColdRows
	out.Misses, out.Read, out.Written = float64(s.Memory.Misses-before.Memory.Misses)/n, float64(s.Memory.Read-before.Memory.Read)/n, float64(s.Memory.Written-before.Memory.Written)/n
	if used := processUse(t, *coldPID); *coldPID != 0 {
		out.CPU = (used.cpu - process.cpu) / n
		out.ReadTimes, out.WriteTimes = (used.read-process.read)/max(1, n*out.Read), (used.written-process.written)/max(1, n*out.Written)
	}
	if *coldTrained != "" {
		if err := os.WriteFile(*coldTrained, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out.Digest, err = c.Digest(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

// usage is what a process has used: seconds of CPU, bytes from and to files.
type usage struct{ cpu, read, written float64 }

// processUse looks into /proc; of process 0 it is nothing.
func processUse(t *testing.T, pid int) (u usage) {
	t.Helper()
	if pid == 0 {
		return usage{}
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(io)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "read_bytes":
			u.read = n
		case "write_bytes":
			u.written = n
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(after)
	for _, ticks := range f[11:13] { // utime, stime, in hundredths
		n, _ := strconv.ParseFloat(ticks, 64)
		u.cpu += n / 100
	}
	return u
}

// watched calls each before a batch.
type watched struct {
	*limited
	each func()
}

func (w *watched) Next(b *dataset.Batch) (bool, error) {
	w.each()
	return w.limited.Next(b)
}
