package layout_test

import (
	"fmt"
	"testing"

	"hcclps/ps/layout"
)

func members(n int) []layout.Member {
	var ms []layout.Member
	for i := range n {
		ms = append(ms, layout.Member{ID: fmt.Sprintf("id%d", i), Name: fmt.Sprintf("s%d", i), Addr: fmt.Sprintf("h%d:1", i)})
	}
	return ms
}

func TestNewSpreadsLeadersAndReplicas(t *testing.T) {
	l, err := layout.New(layout.Config{Cluster: "c", Members: members(5), Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(l.Shards); got != 16 {
		t.Fatalf("shards = %d, want 16", got)
	}
	lead, carry := map[string]int{}, map[string]int{}
	for g := range l.Groups() {
		ids := l.Replicas(g)
		lead[ids[0]]++
		seen := map[string]bool{}
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("group %d has %s twice", g, id)
			}
			seen[id] = true
			carry[id]++
		}
	}
	for _, m := range l.Members {
		if lead[m.ID] < 3 || lead[m.ID] > 4 || carry[m.ID] > layout.MaxGroupsPerServer+1 {
			t.Errorf("%s leads %d and carries %d groups", m.ID, lead[m.ID], carry[m.ID])
		}
	}
}

func TestDefaultShards(t *testing.T) {
	for _, c := range []struct{ servers, replicas, want int }{{1, 1, 8}, {3, 3, 16}, {3, 1, 16}, {4, 3, 16}, {5, 5, 16}, {100, 3, 512}} {
		if got := layout.DefaultShards(c.servers, c.replicas); got != c.want {
			t.Errorf("DefaultShards(%d, %d) = %d, want %d", c.servers, c.replicas, got, c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]layout.Config{
		"no members":            {Replicas: 1},
		"two replicas":          {Members: members(3), Replicas: 2},
		"more replicas":         {Members: members(2), Replicas: 3},
		"odd shards":            {Members: members(3), Replicas: 3, Shards: 12},
		"too many groups":       {Members: members(3), Replicas: 3, Shards: 32},
		"one id twice":          {Members: append(members(2), members(1)...), Replicas: 3, Shards: 4},
		"more than partitions":  {Members: members(3), Replicas: 1, Shards: 2048},
		"member without a name": {Members: []layout.Member{{ID: "x", Addr: "y"}}, Replicas: 1, Shards: 1},
	} {
		if _, err := layout.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCheckTakesWhatIsNotKnownYet(t *testing.T) {
	for _, c := range []struct {
		servers, replicas, shards int
		ok                        bool
	}{
		{0, 0, 0, true},
		{0, 3, 8, true},
		{3, 0, 64, true},
		{3, 3, 0, true},
		{5, 5, 16, true},
		{0, 5, 1024, true},
		{0, -1, 0, false},
		{0, 7, 0, false},
		{0, 0, 3, false},
		{0, 0, -8, false},
		{0, 0, 1 << 20, false},
		{1, 3, 0, false},
		{3, 3, 32, false},
	} {
		if err := layout.Check(c.servers, c.replicas, c.shards); (err == nil) != c.ok {
			t.Errorf("%d servers, %d replicas, %d shards: %v", c.servers, c.replicas, c.shards, err)
		}
	}
}

func TestStridedKeysSpread(t *testing.T) {
	for _, stride := range []uint64{1, 8, 1024, 1 << 32, 1 << 54} {
		var count [8]int
		for i := range uint64(1 << 14) {
			count[layout.ShardOf(layout.Partition(i*stride, 7), 8)]++
		}
		for s, n := range count {
			if n < 1700 || n > 2400 {
				t.Errorf("stride %d: shard %d has %d of 16384 keys", stride, s, n)
			}
		}
	}
}

func TestPartOfCutsShardsEvenly(t *testing.T) {
	for _, shards := range []int{1, 4, 16} {
		for _, parts := range []int{1, 2, 8} {
			count := map[[2]int]int{}
			for p := range layout.Partitions {
				count[[2]int{int(layout.ShardOf(p, shards)), layout.PartOf(p, shards, parts)}]++
			}
			if len(count) != shards*parts {
				t.Fatalf("%d shards, %d parts: %d cells", shards, parts, len(count))
			}
			for c, n := range count {
				if n != layout.Partitions/shards/parts {
					t.Errorf("shard %d part %d has %d partitions", c[0], c[1], n)
				}
			}
		}
	}
}
