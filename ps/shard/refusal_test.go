package shard

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/internal/vec"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

func TestBackPressureAdmitsTheLowestMissingRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		c.admit = 100 << 10
		c.startAll()
		defer c.stopAll()
		p := wire.JobParams{World: 3, Sync: wire.BSP, Parts: 1}
		c.open(p)
		n := c.leader()
		push := func(rank uint32) (wire.Answer, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			a, _ := ask(ctx, n, &wire.Push{Target: target(rank), Step: 0, Parts: 1, Rows: 1}, big(0, 5000)) // 80 KB
			return a, cancel
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, cancel := push(2); cancel() }) // fills the budget, and stays when its caller leaves
		synctest.Wait()
		a, cancel := push(1)
		cancel()
		if a.Status != wire.Busy || a.After == 0 {
			t.Errorf("rank 1 over the budget: %+v", a)
		}
		wg.Wait()
		wg.Go(func() { c.ok(&wire.Push{Target: target(0), Step: 0, Parts: 1, Rows: 1}, big(0, 5000)) })
		synctest.Wait()
		c.ok(&wire.Push{Target: target(1), Step: 0, Parts: 1, Rows: 1}, big(0, 5000)) // now the lowest missing
		wg.Wait()
		synctest.Wait() // rank 2, whom nobody waits for, is answered last
		if used := n.group.cfg.Budget.Used(); used != 0 {
			t.Errorf("%d bytes still charged", used)
		}
		if a, _ := c.do(&wire.Push{Target: target(0), Step: 1, Parts: 1, Rows: 1}, big(0, 60000)); a.Status != wire.Refused || !strings.Contains(a.Detail, "--log-budget") {
			t.Errorf("push over the largest entry: %+v", a)
		}
	})
}

func TestRefusalsNameTheCulprit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		c.startAll()
		defer c.stopAll()
		c.open(wire.JobParams{World: 1, Sync: wire.BSP, Parts: 1})
		nan := vec.Floats([]byte{0, 0, 0xc0, 0x7f})[0]
		for _, x := range []struct {
			body []byte
			want string
		}{
			{grad(7, 1, nan), `non-finite gradient: part 0 of step 0 of worker "w0", job "j": table "t1", key 7: the gradient is NaN`},
			{grad(7, 1), `refused: part 0 of step 0 of worker "w0", job "j": table "t1" has rows of 2 values, the gradient of 1`},
			{[]byte("garbage"), `refused: part 0 of step 0 of worker "w0", job "j": malformed message`},
			{wire.AppendSection(nil, wire.Section{Table: 5, Dim: 1, Keys: []uint64{1}, Values: []float32{1}}), "table 5 does not exist"},
		} {
			a, _ := c.do(&wire.Push{Target: target(0), Parts: 1, Rows: 1}, x.body)
			if got := a.Status.String() + ": " + a.Detail; !strings.Contains(got, x.want) {
				t.Errorf("got %q, want %q", got, x.want)
			}
		}
		a, _ := c.do(&wire.Push{Target: target(0), Parts: 2, Rows: 1}, nil)
		if a.Status != wire.Refused {
			t.Errorf("another number of parts: %+v", a)
		}
		c.ok(&wire.Push{Target: target(0), Parts: 1, Rows: 1}, grad(7, 1, 1))
	})
}

// TestPushesInCodes: what workers send in codes has, on every replica, the bits of what the codes decode to; a push
// that says less of its size than it takes, or too much, is refused.
func TestPushesInCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ids...)
		c.startAll()
		defer c.stopAll()
		c.open(wire.JobParams{World: 2, Sync: wire.BSP, Parts: 1})
		values := []float32{1, -3, 5, 7, 0.5, 0}
		body := encodeCoded(t, "onebit", []wire.Section{{Table: 1, Dim: 2, Keys: []uint64{3, 4, 9}, Values: values}})
		const plain = 3 * (8 + 2*4)
		push := func(rank uint32, size uint64) wire.Answer {
			a, _ := c.do(&wire.Push{Target: target(rank), Parts: 1, Rows: 1, Plain: size}, body)
			return a
		}
		for _, size := range []uint64{0, plain - 8, 1 << 40} {
			if a := push(0, size); a.Status != wire.Refused {
				t.Errorf("%d bytes announced: %+v", size, a)
			}
		}
		before := c.rows(&wire.Pull{Target: target(0)}, 3, 4, 9)
		done := make(chan wire.Answer)
		go func() { done <- push(1, plain) }()
		if a := push(0, plain); a.Status != wire.OK {
			t.Fatalf("%+v", a)
		}
		if a := <-done; a.Status != wire.OK {
			t.Fatalf("%+v", a)
		}
		var r update.Reducer
		sections, err := r.Sections(body)
		c.must(err)
		after := c.rows(&wire.Pull{Target: target(0), Step: 1, Own: 1}, 3, 4, 9)
		for i, g := range sections[0].Values { // two workers of a row each give the same: the mean is that
			if want := before[i] - g; after[i] != want {
				t.Errorf("weight %d: %v, want %v - %v", i, after[i], before[i], g)
			}
		}
		c.same()
	})
}

func TestFenceAnswersTheOldIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		c.startAll()
		defer c.stopAll()
		p := wire.JobParams{World: 2, Sync: wire.BSP, Parts: 1}
		c.open(p)
		old := make(chan wire.Answer, 1)
		go func() {
			a, _ := ask(context.Background(), c.leader(), &wire.Push{Target: target(0), Parts: 1, Rows: 1}, grad(1, 9, 9))
			old <- a
		}()
		synctest.Wait()
		again := target(0)
		again.Incarnation = 2
		c.ok(&wire.Fence{Target: again, Params: p, Owner: "elsewhere"}, nil)
		if a := <-old; a.Status != wire.Fenced || !strings.Contains(a.Detail, "elsewhere") {
			t.Errorf("parked push of the old incarnation: %+v", a)
		}
		var wg sync.WaitGroup
		wg.Go(func() { c.ok(&wire.Push{Target: again, Parts: 1, Rows: 1}, grad(1, 2, 2)) })
		c.ok(&wire.Push{Target: target(1), Parts: 1, Rows: 1}, grad(1, 4, 4))
		wg.Wait()
		if got := c.rows(&wire.Pull{Target: again, Step: 1}, 1); got[0] != -3 {
			t.Errorf("weight %v, want -3", got[0])
		}
	})
}
