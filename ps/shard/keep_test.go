package shard

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/layout"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// single is a scratch group of one server with one worker, and table 2 with rules.
func single(t *testing.T, memory *table.Memory, keep wire.Table) (c *cluster, stop func()) {
	t.Helper()
	c = newCluster(t, "a")
	g, err := New(Config{Group: 1, Self: "a", Layout: func() layout.Layout { return c.layout }, Memory: memory})
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{id: "a", group: g}
	n.done.Go(func() { n.err = g.Run(ctx) })
	c.nodes["a"] = n
	c.open(wire.JobParams{World: 1, Parts: 1})
	spec := testTable(2, 1)
	spec.Admit, spec.Evict = keep.Admit, keep.Evict
	c.table(2, spec)
	return c, func() { cancel(); n.done.Wait(); c.must(n.err) }
}

// give pushes a step with a gradient of 1 for keys of table 2.
func (c *cluster) give(step uint64, keys ...uint64) (wire.Answer, []byte) {
	s := wire.Section{Table: 2, Dim: 1, Keys: keys}
	for range keys {
		s.Values = append(s.Values, 1)
	}
	return ask(c.t.Context(), c.leader(), &wire.Push{Target: target(0), Step: step, Parts: 1, Rows: 1}, wire.AppendSection(nil, s))
}

func (c *cluster) mustGive(step uint64, keys ...uint64) {
	c.t.Helper()
	if a, _ := c.give(step, keys...); a.Status != wire.OK {
		c.t.Fatalf("push of step %d: %v, %s", step, a.Status, a.Detail)
	}
}

func TestNewKeysAreRefusedWhereMemoryIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := table.NewMemory(1 << 30)
		c, stop := single(t, memory, wire.Table{})
		defer stop()
		many := make([]uint64, 10_000)
		for i := range many {
			many[i] = uint64(i)
		}
		c.mustGive(0, many[:10]...)
		memory.Add(2 << 30)
		c.mustGive(1, many[:10]...)
		a, _ := c.give(2, many...)
		if a.Status != wire.Busy || a.After == 0 {
			t.Errorf("10,000 keys: %+v", a)
		}
		for _, want := range []string{`table "t2" of job "j": no room for the rows of 9990 new keys, as of key 10`, "1073741824 are meant for them", "--memory", "--evict"} {
			if !strings.Contains(a.Detail, want) {
				t.Errorf("%q does not say %q", a.Detail, want)
			}
		}
		body := wire.AppendRow(nil, wire.Row{Key: 1 << 40, Values: []float32{1}})
		if a, _ := ask(t.Context(), c.leader(), &wire.Put{Target: target(0), Load: 1, Table: 2}, body); a.Status != wire.Busy {
			t.Errorf("a load: %+v", a)
		}
		c.mustGive(2, many[:20]...) // what fits
		memory.Add(-2 << 30)
		c.mustGive(3, many...)
	})
}

func TestFindShowsARowOrWhatStandsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := single(t, nil, wire.Table{Admit: wire.Admit{Kind: wire.AdmitCount, Count: 2}})
		defer stop()
		find := func(job string, table uint32, key uint64) string {
			a, b := ask(t.Context(), c.leader(), &wire.Find{Group: 1, Job: job, Table: table, Key: key}, nil)
			if a.Status != wire.OK {
				return fmt.Sprint(a.Status, ": ", a.Detail)
			}
			f, err := wire.DecodeFound(b)
			c.must(err)
			return fmt.Sprintf("%v %v sightings=%d step=%d writer=%s clock=%d", f.There, f.Row.Values, f.Row.Sightings, f.Row.Step, f.Writer, f.Clock)
		}
		c.mustGive(0, 5)
		for _, want := range []string{"false [0] sightings=1 step=0 writer= clock=1", "true [-1] sightings=1 step=2 writer=j/w0 clock=2"} {
			if got := find("j", 2, 5); got != want {
				t.Errorf("row %s, want %s", got, want)
			}
			c.mustGive(c.leader().group.state.jobs["j"].Clock, 5, 6)
		}
		for _, w := range []string{find("x", 2, 5), find("j", 9, 5)} {
			if !strings.HasPrefix(w, "unknown session: job \"x\"") && !strings.HasPrefix(w, "refused: table 9 of job \"j\"") {
				t.Errorf("what is not there: %s", w)
			}
		}
		st := c.leader().group.Status(false).Jobs[0].Tables
		if len(st) != 2 || st[1].Rows != 2 || st[1].Refused != 2 || st[1].Admit != "count:2" || st[1].Bytes == 0 || st[1].Waiting != 0 {
			t.Errorf("tables %+v", st)
		}
		if a, _ := ask(t.Context(), c.leader(), &wire.Sweep{Group: 1, Job: "j", Table: 2, To: 1024}, nil); a.Status != wire.Refused {
			t.Errorf("somebody else sweeps: %+v", a)
		}
	})
}

// TestLeadersTellTheTime lets rows outlive their time, by the clocks of two leaders one after the other, on three replicas.
func TestLeadersTellTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ids...)
		c.startAll()
		defer c.stopAll()
		c.open(wire.JobParams{World: 1, Parts: 1})
		spec := testTable(2, 1)
		spec.Evict.TTL = 20 * time.Second
		c.table(2, spec)
		rows := func() string {
			_, b := c.ok(&wire.Scan{Target: target(0), Table: 2, First: true, Limit: 9}, nil)
			rows, err := wire.DecodeRows(b)
			c.must(err)
			var keys []uint64
			for _, r := range rows {
				keys = append(keys, r.Key)
			}
			return fmt.Sprint(keys)
		}
		want := func(keys string) {
			t.Helper()
			if got := rows(); got != keys {
				t.Errorf("rows %s, want %s", got, keys)
			}
		}
		c.mustGive(0, 1, 2)
		pause(8 * time.Second)
		c.mustGive(1, 2)
		dead := c.leader().id
		c.stop(dead, true)
		pause(6 * time.Second)
		c.mustGive(2, 3)
		want("[1 2 3]")
		pause(9 * time.Second)
		want("[2 3]")
		c.start(dead)
		pause(60 * time.Second)
		want("[]")
		c.same()
	})
}
