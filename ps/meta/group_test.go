package meta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/meta"
	"hcclps/ps/wire"
)

func TestTableIsInForceOnEveryShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShards()
		r := start(t, t.TempDir(), f)
		defer r.end()
		if got := r.open("a", 0); got.Incarnation != 1 || got.Lease != meta.DefaultLease {
			t.Errorf("opened: %+v", got)
		}
		a, made := r.table("w")
		if a.Status != wire.OK || made.ID != 1 {
			t.Fatalf("table: %v %s, id %d", a.Status, a.Detail, made.ID)
		}
		for g := uint32(1); g <= shards; g++ {
			if got := f.endings(g); !slices.Equal(got, []string{"1 force"}) {
				t.Errorf("group %d: plans ended %v", g, got)
			}
		}
		if a, again := r.table("w"); a.Status != wire.OK || again.ID != 1 || len(f.endings(1)) != 1 {
			t.Errorf("found again: %v, id %d, plans %v", a.Status, again.ID, f.endings(1))
		}
		if got := r.open("b", 1); len(got.Tables) != 1 || got.Tables[0].Name != "w" {
			t.Errorf("tables shown to the second worker: %v", got.Tables)
		}
	})
}

func TestLatePlanIsDroppedAndTriedWithALaterStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShards()
		f.clock[1], f.clock[2] = 5, 6
		f.onProbe = func(f *fakeShards) { // training goes on meanwhile, until the third probe
			if f.clock[2] < 12 {
				f.clock[2] += 3
			}
		}
		r := start(t, t.TempDir(), f)
		defer r.end()
		r.open("a", 0)
		a, got := ask[wire.Plan](r, wire.KindPlan, wire.PlanRequest{SessionRef: ref("a", 1), Plan: wire.Plan{Kind: wire.PlanRate, Rate: 0.5}})
		if a.Status != wire.OK {
			t.Fatalf("plan: %v %s", a.Status, a.Detail)
		}
		f.mu.Lock()
		clock := f.clock[2]
		f.mu.Unlock()
		if got.T <= clock {
			t.Errorf("plan in force from step %d, but the clock is %d", got.T, clock)
		}
		ends := f.endings(2)
		if len(ends) < 1 || ends[len(ends)-1] != fmt.Sprint(got.ID, " force") {
			t.Errorf("group 2: plans ended %v, want the last, %d, in force", ends, got.ID)
		}
		if first := f.endings(1)[0]; got.ID > 1 && first != "1 drop" {
			t.Errorf("group 1 held plan 1 and was told %q, want a drop", first)
		}
	})
}

func TestRefusedPlanIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShards()
		f.refuse = `optimizer "sgdd" is unknown; did you mean "sgd"?`
		r := start(t, t.TempDir(), f)
		defer r.end()
		r.open("a", 0)
		a, _ := r.table("w")
		if a.Status != wire.Refused || !strings.Contains(a.Detail, "sgdd") {
			t.Errorf("table: %v %s", a.Status, a.Detail)
		}
		f.mu.Lock()
		f.refuse = ""
		f.mu.Unlock()
		if a, made := r.table("w"); a.Status != wire.OK || made.ID != 1 {
			t.Errorf("after the refusal: %v %s, id %d", a.Status, a.Detail, made.ID)
		}
	})
}

func TestLeaseEndsAndTheWorkerIsExpelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShards()
		r := start(t, t.TempDir(), f)
		defer r.end()
		r.open("a", 0)
		r.open("b", 1)
		for range 7 {
			pause(5 * time.Second)
			if a := r.renew(ref("a", 1)); a.Status != wire.OK {
				t.Fatalf("renew a: %v %s", a.Status, a.Detail)
			}
		}
		a := r.renew(ref("b", 1))
		if a.Status != wire.Unknown || !strings.Contains(a.Detail, "lease of 30s ended") {
			t.Fatalf("b after 35 s of silence: %v %s", a.Status, a.Detail)
		}
		if got := f.endings(1); !slices.Equal(got, []string{"1 force"}) {
			t.Errorf("plans ended %v, want the expel plan", got)
		}
		if again := r.open("b", 1); again.Incarnation != 2 || again.Rejoin == nil {
			t.Errorf("opened again: %+v, want incarnation 2 and a step to rejoin at", again)
		}
		if a := r.renew(ref("b", 2)); a.Status != wire.OK {
			t.Errorf("b has joined: %v %s", a.Status, a.Detail)
		}
	})
}

// Nobody waits for the last live session; it goes on where it stopped.
func TestTheLastSessionIsNotExpelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShards()
		r := start(t, t.TempDir(), f)
		defer r.end()
		r.open("a", 0)
		pause(5 * time.Minute)
		if got := r.open("a", 0); got.Incarnation != 2 || got.Rejoin != nil {
			t.Errorf("opened again: %+v, want incarnation 2 and nothing to rejoin", got)
		}
		if a, _ := ask[struct{}](r, wire.KindClose, wire.CloseRequest{SessionRef: ref("a", 2)}); a.Status != wire.OK {
			t.Errorf("close: %v %s", a.Status, a.Detail)
		}
		r.open("b", 1) // now somebody waits for a
		for range 8 {
			pause(5 * time.Second)
			r.renew(ref("b", 1))
		}
		if a := r.renew(ref("a", 2)); a.Status != wire.Unknown {
			t.Errorf("a, long gone, with b waiting: %v", a.Status)
		}
	})
}

func TestCloseBeforeFinishExpels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShards()
		r := start(t, t.TempDir(), f)
		defer r.end()
		r.open("a", 0)
		r.open("b", 1)
		if a, _ := ask[struct{}](r, wire.KindClose, wire.CloseRequest{SessionRef: ref("b", 1)}); a.Status != wire.OK {
			t.Fatalf("close: %v %s", a.Status, a.Detail)
		}
		if a := r.renew(ref("b", 1)); a.Status != wire.Unknown || !strings.Contains(a.Detail, "left") {
			t.Errorf("b has left: %v %s", a.Status, a.Detail)
		}
		if a, _ := ask[struct{}](r, wire.KindClose, wire.CloseRequest{SessionRef: ref("a", 1), Finished: true}); a.Status != wire.OK {
			t.Fatalf("close a: %v %s", a.Status, a.Detail)
		}
		pause(2 * time.Minute)
		st := r.group.Status(false)
		if got := st.Jobs[0].Workers; got[0].State != "finished" || got[1].State != "expelled" {
			t.Errorf("states %s and %s, want finished and expelled", got[0].State, got[1].State)
		}
	})
}

// A plan in flight when the meta leader dies is finished by the next one.
func TestPlanSurvivesTheLeader(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, f := t.TempDir(), newShards()
				go2 := make(chan struct{})
				f.stall[2] = go2
				r := start(t, dir, f)
				r.open("a", 0)
				asked := make(chan wire.Status, 1)
				go func() {
					a, _ := r.table("w")
					asked <- a.Status
				}()
				pause(time.Second)
				w := r.group.Status(true).Jobs[0].Waiting
				if len(w) != 1 || !slices.Equal(w[0].For, []string{"shard 1"}) || !strings.Contains(w[0].What, "table w") {
					t.Errorf("waiting: %+v, want the hold of table w at shard 1", w)
				}
				if crash {
					r.crash()
				} else {
					r.end()
				}
				if got := <-asked; got != wire.NotLeader && got != wire.Busy {
					t.Errorf("the request under way was answered %v, want one that is asked again", got)
				}
				close(go2)
				r = start(t, dir, f)
				defer r.end()
				a, made := r.table("w")
				if a.Status != wire.OK || made.ID != 1 {
					t.Fatalf("asked again: %v %s, id %d", a.Status, a.Detail, made.ID)
				}
				for g := uint32(1); g <= shards; g++ {
					if got := f.endings(g); !slices.Equal(got, []string{"1 force"}) {
						t.Errorf("group %d: plans ended %v, want the one", g, got)
					}
				}
			})
		})
	}
}

func TestStateSurvivesSnapshotAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, f := t.TempDir(), newShards()
		r := start(t, dir, f)
		r.open("a", 0)
		for i := range 400 { // enough to fill segments
			if a, _ := ask[wire.OpenReply](r, wire.KindOpen, wire.OpenRequest{
				Job: fmt.Sprint("job-", i), Worker: "w", Params: params, Owner: strings.Repeat("x", 200),
			}); a.Status != wire.OK {
				t.Fatalf("open %d: %v %s", i, a.Status, a.Detail)
			}
		}
		if err := r.group.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.open("b", 1)
		r.crash()
		r = start(t, dir, f)
		defer r.end()
		if got := r.open("a", 0); got.Incarnation != 2 {
			t.Errorf("a: incarnation %d, want 2", got.Incarnation)
		}
		if got := r.open("b", 1); got.Incarnation != 2 {
			t.Errorf("b, opened after the snapshot: incarnation %d, want 2", got.Incarnation)
		}
		if got := len(r.group.Status(false).Jobs); got != 401 {
			t.Errorf("%d jobs, want 401", got)
		}
	})
}

func TestClaimsOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, t.TempDir(), newShards())
		defer r.end()
		asp := wire.JobParams{World: 1, Parts: 1, Sync: wire.ASP}
		ask[wire.OpenReply](r, wire.KindOpen, wire.OpenRequest{Job: "j", Worker: "a", Params: asp})
		a, c := ask[wire.Claim](r, wire.KindClaim, wire.ClaimRequest{SessionRef: ref("a", 1)})
		if a.Status != wire.OK || c != (wire.Claim{Number: 1, To: 16}) {
			t.Errorf("claim: %v, %+v", a.Status, c)
		}
		if a, _ := ask[wire.Claim](r, wire.KindClaim, wire.ClaimRequest{SessionRef: ref("a", 0)}); a.Status != wire.Fenced {
			t.Errorf("claim of a ghost: %v, want fenced", a.Status)
		}
	})
}
