package ps_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"hcclps/ps"
)

// rerun starts server i with nothing but its directory, and what change says.
func (c *cluster) rerun(i int, change func(cfg *ps.Config)) {
	c.change = func(j int, cfg *ps.Config) {
		if i != j {
			return
		}
		*cfg = ps.Config{Dir: cfg.Dir, Network: cfg.Network}
		if change != nil {
			change(cfg)
		}
	}
	c.start(i)
}

func TestLaterStartsNeedTheDirectoryOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil).up()
		s := c.open("a", 0, asp1)
		s.push()
		for i := range 3 {
			c.halt(i)
		}
		for i := range 3 {
			c.rerun(i, nil)
		}
		c.ready()
		s.push()
		s.want(2)
		st := c.nodes[1].server.Status(false)
		if st.Name != "s2" || st.Addr != "h2:7000" || len(st.Groups) != 3 || st.Groups[1].Durable != ps.QuorumMemory {
			t.Errorf("restarted as %+v", st)
		}

		c.halt(2) // the same command line as at first, and another address behind the same advertised one
		c.change = func(_ int, cfg *ps.Config) { cfg.Advertise, cfg.Listen, cfg.LogBudget = cfg.Listen, "h3:7000", 8<<20 }
		c.start(2)
		c.ready()
	})
}

func TestContradictionsAreShown(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		change func(cfg *ps.Config)
		want   []string
	}{
		"durability": {func(cfg *ps.Config) { cfg.Durability = ps.QuorumDisk }, []string{"--durability", "formed with quorum-memory", "quorum-disk is given"}},
		"servers":    {func(cfg *ps.Config) { cfg.Peers = []string{"h1:7000", "h2:7000"} }, []string{"--servers", "h1:7000,h2:7000,h3:7000"}},
		"advertise":  {func(cfg *ps.Config) { cfg.Advertise = "h9:7000" }, []string{"--advertise", "h1:7000", "h9:7000"}},
		"shards":     {func(cfg *ps.Config) { cfg.Shards, cfg.Replicas = 4, 1 }, []string{"formed with 2", "4 is given", "--replicas", "formed with 3"}},
		"name":       {func(cfg *ps.Config) { cfg.Name = "s9" }, []string{`"s1"`, `"s9"`}},
		"cluster":    {func(cfg *ps.Config) { cfg.Cluster = "other" }, []string{`"test"`, `"other"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, nil).up()
				c.halt(0)
				c.rerun(0, k.change)
				n := c.nodes[0]
				c.nodes[0] = nil
				err := <-n.ended
				n.cancel()
				if _, ok := errors.AsType[*ps.ConfigError](err); !ok {
					t.Fatalf("run: %v", err)
				}
				for _, want := range k.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q is not in %v", want, err)
					}
				}
			})
		})
	}
}

func TestAddressesOfOthersNeedInsecure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := func(cfg ps.Config) error {
		cfg.Dir = dir
		s, err := ps.New(cfg)
		if err != nil {
			return err
		}
		return s.Run(ctx)
	}
	err := run(ps.Config{Listen: "0.0.0.0:0"})
	if _, ok := errors.AsType[*ps.ConfigError](err); !ok || !strings.Contains(err.Error(), "--insecure") || !strings.Contains(err.Error(), "--advertise") {
		t.Errorf("listened for anybody: %v", err)
	}
	cancel() // what follows stops before it listens, after it was recorded
	if err := run(ps.Config{Listen: "0.0.0.0:0", Advertise: "127.0.0.1:7000", Insecure: true}); err != nil {
		t.Error(err)
	}
	if err := run(ps.Config{Listen: "0.0.0.0:0"}); err != nil { // said once, at first
		t.Errorf("a later start: %v", err)
	}
}
