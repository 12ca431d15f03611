package update_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// keeping is a table of one float a row, sgd of rate 1, with rules.
func keeping(t *testing.T, admit, evict string) *update.Table {
	t.Helper()
	w := spec()
	w.Dim = 1
	var err error
	if w.Admit, err = wire.ParseAdmit(admit); err != nil {
		t.Fatal(err)
	}
	if w.Evict, err = wire.ParseEvict(evict); err != nil {
		t.Fatal(err)
	}
	tab, err := update.New(w, update.Config{HashSeed: 9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tab.Close() })
	return tab
}

// step is a step with a gradient of 1 for keys, and the sweep after it.
func step(t *testing.T, tab *update.Table, n uint64, keys ...uint64) []uint64 {
	t.Helper()
	slices.Sort(keys)
	s := wire.Section{Table: 3, Dim: 1, Keys: keys, Values: make([]float32, len(keys))}
	for i := range s.Values {
		s.Values[i] = 1
	}
	tab.Advance()
	if err := tab.Apply(s, table.Stamp{Step: uint32(n + 1)}, tab.Step(1)); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(tab.Sweep(n+1, n+1))
}

// rows are the weights of keys, and whether they have a row.
func rows(tab *update.Table, keys ...uint64) string {
	var out []string
	for _, k := range keys {
		if r, ok := tab.Rows.Row(k); ok {
			out = append(out, fmt.Sprintf("%d=%v", k, r.Values[0]))
		}
	}
	return fmt.Sprint(out)
}

func TestKeysAreAdmittedAtTheirSighting(t *testing.T) {
	for _, admit := range []string{"count:3", "bloom:3", "bloom:3,16"} {
		tab := keeping(t, admit, "")
		for n, c := range []struct {
			keys []uint64
			want string
		}{
			{[]uint64{1, 2}, "[]"},
			{[]uint64{1, 5}, "[]"},
			{[]uint64{1, 2, 5, 9}, "[1=-1]"}, // the third one counts whole
			{[]uint64{1, 2, 9}, "[1=-2 2=-1]"},
			{[]uint64{5}, "[1=-2 2=-1 5=-1]"},
		} {
			step(t, tab, uint64(n), c.keys...)
			if got := rows(tab, 1, 2, 5, 9); got != c.want {
				t.Errorf("%s: after step %d: %s, want %s", admit, n, got, c.want)
			}
		}
		if got, want := tab.Kept.Refused, uint64(8); got != want {
			t.Errorf("%s: %d gradients refused, want %d", admit, got, want)
		}
	}
}

func TestCountedKeysLeaveWhenTheyAreAdmitted(t *testing.T) {
	tab := keeping(t, "count:2", "")
	for n := range uint64(2) {
		step(t, tab, n, 1, 2, 3+n)
	}
	if got := tab.Seen.Stats().Rows; got != 2 || tab.Rows.Stats().Rows != 2 {
		t.Errorf("%d keys wait, %d rows, want 2 and 2", got, tab.Rows.Stats().Rows)
	}
}

// TestBloomIsNeverLate: a filter far too small admits too early, but no key later than it was told to.
func TestBloomIsNeverLate(t *testing.T) {
	tab := keeping(t, "bloom:4,16", "")
	keys := make([]uint64, 50_000)
	for i := range keys {
		keys[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	for n := range uint64(4) {
		step(t, tab, n, slices.Clone(keys)...)
		if got := tab.Rows.Stats().Rows; n == 0 && got > 0 && got == int64(len(keys)) || n == 3 && got != int64(len(keys)) {
			t.Errorf("after step %d: %d rows of %d", n, got, len(keys))
		}
	}
}

func TestChanceIsItsShareOfSightings(t *testing.T) {
	a, b := keeping(t, "prob:0.1", ""), keeping(t, "prob:0.1", "")
	keys := make([]uint64, 20_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	step(t, a, 0, slices.Clone(keys)...)
	for _, k := range keys { // one by one they fall the same
		step(t, b, 0, k)
	}
	if got := a.Rows.Stats().Rows; got < 1800 || got > 2200 || a.Kept.Refused != uint64(20_000-got) {
		t.Errorf("%d rows of 20000, %d refused", got, a.Kept.Refused)
	}
	if x, y := rows(a, keys...), rows(b, keys...); x != y {
		t.Error("together other keys are admitted than one by one")
	}
	before := a.Rows.Stats().Rows
	step(t, a, 1, slices.Clone(keys)...)
	if got := a.Rows.Stats().Rows - before; got < 1500 || got > 2100 { // 0.1 of what is left
		t.Errorf("%d more rows at the second sighting", got)
	}
}

func TestRulesInSteps(t *testing.T) {
	for _, c := range []struct {
		rule string
		push map[uint64][]uint64 // by step
		end  uint64
		want string // of keys 1, 2, 3
	}{
		{"ttl:8steps", map[uint64][]uint64{0: {1, 2, 3}, 5: {2}, 8: {3}}, 13, "[2=-2 3=-2]"},
		{"ttl:8steps", map[uint64][]uint64{0: {1, 2, 3}, 5: {2}, 8: {3}}, 14, "[3=-2]"},
		// Sightings 1, 2 and 4, halved at steps 8 and 16.
		{"lfu:8", map[uint64][]uint64{0: {1, 2, 3}, 1: {2, 3}, 2: {3}, 3: {3}}, 11, "[2=-2 3=-4]"},
		{"lfu:8", map[uint64][]uint64{0: {1, 2, 3}, 1: {2, 3}, 2: {3}, 3: {3}}, 16, "[3=-4]"},
		{"lfu:8", map[uint64][]uint64{0: {1, 2, 3}, 1: {2, 3}, 2: {3}, 3: {3}}, 24, "[]"},
		{"l2:1.5", map[uint64][]uint64{0: {1, 2, 3}, 1: {2, 3}}, 300, "[2=-2 3=-2]"},
	} {
		tab := keeping(t, "", c.rule)
		for n := range c.end {
			step(t, tab, n, c.push[n]...)
		}
		if got := rows(tab, 1, 2, 3); got != c.want {
			t.Errorf("%s after %d steps: %s, want %s", c.rule, c.end, got, c.want)
		}
	}
}

// TestRowsStayWithinTheirBudget pushes ever new keys beside some that come each time: the budget holds after every step, and the regulars stay.
func TestRowsStayWithinTheirBudget(t *testing.T) {
	for _, rule := range []string{"rows:4096", "rows:4096,lfu:1000", "bytes:200000"} {
		tab := keeping(t, "", rule)
		budget := int64(4096)
		if rule == "bytes:200000" {
			budget = 200000 / (20 + 16)
		}
		var regulars []uint64
		for i := range uint64(256) {
			regulars = append(regulars, i<<40)
		}
		for n := range uint64(40) {
			keys := slices.Clone(regulars)
			for i := range uint64(1000) {
				keys = append(keys, 1<<50+n*1000+i)
			}
			step(t, tab, n, keys...)
			if got := tab.Rows.Stats().Rows; got > budget || n > 20 && got < budget*3/4 {
				t.Fatalf("%s: %d rows after step %d, budget %d", rule, got, n, budget)
			}
		}
		if got := len(tab.Rows.Missing(regulars, nil)); got > len(regulars)/50 {
			t.Errorf("%s: %d of %d regular keys were evicted", rule, got, len(regulars))
		}
		if got := int64(tab.Kept.Evicted) + tab.Rows.Stats().Rows; rule == "rows:4096" && got < 40_000 {
			t.Errorf("%s: %d rows evicted and %d left", rule, tab.Kept.Evicted, tab.Rows.Stats().Rows)
		}
	}
}

func TestWaitingKeysAreForgotten(t *testing.T) {
	tab := keeping(t, "count:2", "ttl:8steps,rows:1024")
	step(t, tab, 0, 1)
	for n := uint64(1); n < 10; n++ {
		step(t, tab, n)
	}
	step(t, tab, 10, 1) // its first sighting is forgotten
	if got := rows(tab, 1); got != "[]" {
		t.Errorf("rows %s", got)
	}
	for n := uint64(11); n < 20; n++ {
		keys := make([]uint64, 500)
		for i := range keys {
			keys[i] = 1000*n + uint64(i)
		}
		step(t, tab, n, keys...)
	}
	if got := tab.Seen.Stats().Rows; got > 1024 {
		t.Errorf("%d keys wait", got)
	}
}

func TestRowsOutliveTheirTime(t *testing.T) {
	tab := keeping(t, "count:2", "ttl:1h")
	at := func(minutes int) uint64 { return uint64(1000*time.Hour + time.Duration(minutes)*time.Minute) }
	tell := func(minutes int, now uint64) int { return len(tab.SweepTime(at(minutes), now, 0, table.Partitions)) }
	for n := range uint64(2) {
		step(t, tab, n, 1, 2)
	}
	for _, c := range []struct {
		minutes int
		push    []uint64
		gone    int
		want    string
	}{
		{0, nil, 0, "[1=-1 2=-1]"},
		{30, []uint64{2}, 0, "[1=-1 2=-2]"},
		{20, nil, 0, "[1=-1 2=-2]"}, // time does not go back
		{59, nil, 0, "[1=-1 2=-2]"},
		{61, nil, 1, "[2=-2]"},
		{80, nil, 0, "[2=-2]"},
		{89, nil, 0, "[2=-2]"},
		{200, nil, 1, "[]"},
	} {
		n := tab.Opt.Steps
		step(t, tab, n, c.push...)
		if gone := tell(c.minutes, n+1); gone != c.gone || rows(tab, 1, 2) != c.want {
			t.Errorf("minute %d: %d gone, rows %s, want %d and %s", c.minutes, gone, rows(tab, 1, 2), c.gone, c.want)
		}
	}
	if n := len(tab.Kept.Marks); n > 20 {
		t.Errorf("%d marks", n)
	}
}

// TestKeepingIsTheSameInParts sends the same steps to one table, and to four of which each has a quarter of the partitions: together they have
// the same rows. So it does not matter how many shards there are.
func TestKeepingIsTheSameInParts(t *testing.T) {
	for _, c := range []struct{ admit, evict string }{
		{"count:2", "rows:2048,ttl:20steps"},
		{"bloom:2,16", "rows:2048,lfu:10"},
		{"prob:0.3", "bytes:100000,l2:0.5"},
	} {
		whole := keeping(t, c.admit, c.evict)
		var parts [4]*update.Table
		for i := range parts {
			parts[i] = keeping(t, c.admit, c.evict)
		}
		x := uint64(1)
		var all []uint64
		for n := range uint64(60) {
			var split [4][]uint64
			keys := map[uint64]bool{}
			for range 400 {
				x = x*6364136223846793005 + 1442695040888963407
				keys[(x>>33)%(1+x>>50%9000)] = true
			}
			var step1 []uint64
			for k := range keys {
				step1 = append(step1, k)
				split[table.Partition(k, 9)/256] = append(split[table.Partition(k, 9)/256], k)
			}
			all = append(all, step1...)
			step(t, whole, n, step1...)
			for i := range parts {
				step(t, parts[i], n, split[i]...)
			}
		}
		slices.Sort(all)
		all = slices.Compact(all)
		var kept, refused, evicted uint64
		for _, k := range all {
			if got, want := rows(parts[table.Partition(k, 9)/256], k), rows(whole, k); got != want {
				t.Fatalf("%v: key %d: %s in parts, %s in one", c, k, got, want)
			}
		}
		for _, p := range parts {
			kept, refused, evicted = kept+uint64(p.Rows.Stats().Rows), refused+p.Kept.Refused, evicted+p.Kept.Evicted
		}
		if w := whole; kept != uint64(w.Rows.Stats().Rows) || refused != w.Kept.Refused || evicted != w.Kept.Evicted || evicted == 0 || refused == 0 {
			t.Errorf("%v: rows %d, refused %d, evicted %d in parts; %d and %+v in one", c, kept, refused, evicted, w.Rows.Stats().Rows, w.Kept)
		}
	}
}

// Rows that came with the table are no older than the table, by any rule in steps.
func TestRowsThatCameAgeFromThen(t *testing.T) {
	for _, rule := range []string{"ttl:4steps", "lfu:4"} {
		for _, c := range []struct{ since, gone uint64 }{{0, 20}, {20, 24}, {30, 34}} {
			tab := keeping(t, "", rule)
			step(t, tab, 0, 7)
			tab.Kept.Since = c.since
			for now := uint64(20); now <= 40; now++ {
				tab.Sweep(now, now)
				if there := rows(tab, 7) != "[]"; there != (now < c.gone) {
					t.Errorf("%s, since step %d: after step %d a row of step 1 is there: %v", rule, c.since, now, there)
				}
			}
		}
	}
}

// Of rows that came with the table, those that learn outlive those that do not: their sightings are halved from the same step on.
func TestRowsThatCameAndLearnOutliveOthers(t *testing.T) {
	tab := keeping(t, "", "lfu:4,rows:1024")
	for range 6 {
		s := wire.Section{Table: 3, Dim: 1, Keys: []uint64{7, 8}, Values: []float32{1, 1}}
		tab.Advance()
		if err := tab.Apply(s, table.Stamp{Step: 1, Halving: 4}, tab.Step(1)); err != nil {
			t.Fatal(err)
		}
	}
	tab.Kept.Since = 40
	step(t, tab, 40, 7)
	gone := map[uint64]uint64{}
	for now := uint64(42); now < 60; now++ {
		for _, key := range tab.Sweep(now, now) {
			gone[key] = now
		}
	}
	if gone[8] != 44 || gone[7] != 45 {
		t.Errorf("gone at step: %v", gone)
	}
}
