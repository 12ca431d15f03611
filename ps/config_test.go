package ps

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"hcclps/p2p/inproc"
	"hcclps/ps/layout"
)

func TestConfigFaultsAreAllNamed(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"nothing given": {Config{}, []string{"--dir"}},
		"not in the list": {
			Config{Dir: "d", Listen: "a:1", Peers: []string{"b:1", "b:1"}, Durability: "ram", Replicas: 3},
			[]string{"a:1 is not among the servers (Peers, --servers) b:1", "listed twice", `--durability) "ram"`},
		},
		"names":    {Config{Dir: "d", Listen: "a:1", Name: "x/y", Cluster: "big one"}, []string{`"x/y"`, `"big one"`}},
		"scratch":  {Config{Dir: "d", Listen: "a:1", Peers: []string{"a:1", "b:1"}, Scratch: true}, []string{"--replicas 0"}},
		"budget":   {Config{Dir: "d", Listen: "a:1", LogBudget: 1, Memory: -1}, []string{"LogBudget, --log-budget) of 1", "negative"}},
		"shards":   {Config{Dir: "d", Shards: 3}, []string{"3 shards", "--shards", "[1, 1024]"}},
		"replicas": {Config{Dir: "d", Replicas: -1}, []string{"-1 replicas", "--replicas"}},
		"servers":  {Config{Dir: "d", Listen: "a:1", Peers: []string{"a:1"}, Replicas: 3}, []string{"3 replicas need as many servers", "--servers"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.cfg)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error does not show %q: %v", want, err)
				}
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		cfg        Config
		replicas   int
		durability string
	}{
		"one server":            {Config{}, 1, QuorumDisk},
		"one server in memory":  {Config{Durability: QuorumMemory}, 1, QuorumDisk},
		"two servers":           {Config{Peers: []string{"a:1", "b:1"}}, 1, QuorumDisk},
		"three servers":         {Config{Peers: []string{"a:1", "b:1", "c:1"}, Durability: QuorumMemory}, 3, QuorumMemory},
		"one copy, as told":     {Config{Peers: []string{"a:1", "b:1", "c:1"}, Replicas: 1}, 1, QuorumDisk},
		"nothing survives here": {Config{Scratch: true}, 1, QuorumDisk},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Dir, c.cfg.Listen = "data/d", "a:1"
			got := c.cfg.withDefaults()
			if got.Replicas != c.replicas || got.Durability != c.durability || got.Name != "d" || got.Cluster != DefaultCluster {
				t.Errorf("%d replicas, %s, name %s, cluster %s", got.Replicas, got.Durability, got.Name, got.Cluster)
			}
		})
	}
}

func TestHost(t *testing.T) {
	for addr, want := range map[string]string{"10.0.0.1:7000": "10.0.0.1", "[::1]:7000": "::1", "unix:/tmp/s": "localhost", "s1": "s1"} {
		if got := host(addr); got != want {
			t.Errorf("host of %s: %s, want %s", addr, got, want)
		}
	}
}

func TestMemoryThatCannotHoldIsRefused(t *testing.T) {
	s, err := New(Config{Dir: "d", Listen: "a:1", Network: inproc.NewNetwork(), Memory: 64 << 20, LogBudget: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.self.ID = "x"
	l, err := layout.New(layout.Config{Members: []layout.Member{{ID: "x", Name: "x", Addr: "a:1"}}, Replicas: 1, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.memory(formation{Layout: l, Durability: QuorumDisk}, "x"); err != nil {
		t.Errorf("logs on disk: %v", err)
	}
	_, err = s.memory(formation{Layout: l, Durability: QuorumMemory}, "x")
	if err == nil || !strings.Contains(err.Error(), "needs 128MiB at least (Memory, --memory)") || !strings.Contains(err.Error(), "--log-budget") {
		t.Errorf("64 MiB of logs in 64 MiB: %v", err)
	}
	s.cfg.Memory = 128 << 20
	if _, err = s.memory(formation{Layout: l, Durability: QuorumMemory}, "x"); err != nil {
		t.Errorf("as much as is said to be needed: %v", err)
	}
	s.cfg.Memory = 20 << 20
	if _, err = s.memory(formation{Layout: l, Durability: QuorumDisk}, "x"); err == nil || !strings.Contains(err.Error(), "needs 37MiB") || strings.Contains(err.Error(), "log budget") {
		t.Errorf("20 MiB, logs on disk: %v", err)
	}
}

func TestLinksKeepASixteenthOfTheMemory(t *testing.T) {
	for _, limit := range []int64{64 << 20, 1 << 30, 64 << 30} {
		if n := scratch(limit); n < 1<<20 || int64(n) > limit/16 {
			t.Errorf("of %d bytes: %d for the links", limit, n)
		}
	}
}

func TestMemoryThatCannotHoldIsRefusedBeforeAnythingIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"one byte": {Config{Memory: 1}, "--memory"},
		"logs":     {Config{Peers: []string{"a:1", "b:1", "c:1"}, Memory: 200 << 20, LogBudget: 16 << 20, Durability: QuorumMemory}, "16 groups here"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Dir, c.cfg.Listen, c.cfg.Network, c.cfg.AllowSameHost = t.TempDir(), "a:1", inproc.NewNetwork(), true
			s, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			err = s.Run(t.Context())
			if _, ok := errors.AsType[*ConfigError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run: %v", err)
			}
			if s.self.ID != "" {
				t.Error("an identity was made")
			}
		})
	}
}

// FuzzFormation feeds what a server may be told about its cluster.
func FuzzFormation(f *testing.F) {
	f.Add([]byte(`{"epoch":1,"cluster":"c","members":[{"id":"x","name":"n","addr":"a:1"}],"meta":["x"],"shards":[["x"]],"durability":"quorum-disk"}`))
	f.Add([]byte(`{"meta":["y"],"shards":[[],["x"],[""]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := New(Config{Cluster: "c", Dir: "d", Listen: "a:1", Network: inproc.NewNetwork()})
		if err != nil {
			t.Fatal(err)
		}
		s.self.ID = "x"
		form, err := decodeFormation(b)
		if err != nil || s.belongs(form) != nil {
			return
		}
		s.formation.Store(&form)
		for g := range form.Groups() {
			for _, id := range form.Replicas(g) {
				if _, err := s.resolve(raft.ServerAddress(id)); err != nil {
					t.Errorf("a replica of group %d of a formation that passed its checks: %v", g, err)
				}
			}
		}
	})
}
