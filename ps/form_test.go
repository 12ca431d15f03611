package ps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps"
)

func TestFormInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.close()
				for _, i := range order {
					c.start(i)
					<-time.After(3 * time.Second)
				}
				c.ready()
				for i, n := range c.nodes {
					if got := n.server.Layout(); len(got.Shards) != 2 || len(got.Members) != 3 || len(got.Meta) != 3 {
						t.Errorf("server %d: layout %+v", i+1, got)
					}
				}
				s := c.open("a", 0, asp1)
				s.push()
				s.push()
				s.want(2)
			})
		})
	}
}

func TestSecondServerOnADirectory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, nil).up()
		cfg := c.config(0)
		s, err := ps.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), cfg.Dir) {
			t.Errorf("second server: %v", err)
		}
	})
}

func TestServersThatCannotFormACluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(i int, cfg *ps.Config)
		want   []string
	}{
		"one name":     {func(_ int, cfg *ps.Config) { cfg.Name = "twin" }, []string{`named "twin"`, "h1:7000", "h2:7000"}},
		"other shards": {func(i int, cfg *ps.Config) { cfg.Shards = 2 << i }, []string{"2 shards", "4 shards"}},
		"one host": {func(i int, cfg *ps.Config) {
			cfg.Peers = []string{"h1:7000", "h1:7001", "h1:7002"}
			cfg.Listen = cfg.Peers[i]
		}, []string{"h1:7000", "h1:7001", "--allow-same-host"}},
		"one is missing": {func(i int, cfg *ps.Config) {
			if i == 2 {
				cfg.Listen, cfg.Advertise = "h9:7000", "h3:7000"
			}
			cfg.FormTimeout = 10 * time.Second
		}, []string{"h3:7000", "refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, 3, func(i int, cfg *ps.Config) {
					cfg.Dir += fmt.Sprint(i)
					c.change(i, cfg)
				})
				defer cl.close()
				for i := range 3 {
					cl.start(i)
				}
				for i, n := range cl.nodes {
					err := <-n.ended
					n.cancel()
					cl.nodes[i] = nil
					if err == nil {
						t.Fatal("the cluster was formed")
					}
					for _, want := range c.want {
						if lost := name == "one is missing" && i == 2; !lost && !strings.Contains(err.Error(), want) {
							t.Errorf("error of server %d does not show %q: %v", i+1, want, err)
						}
					}
				}
			})
		})
	}
}

func TestFounderDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		c.start(0)
		c.start(1)
		<-time.After(2 * time.Second)
		c.crash(0) // before it has founded
		c.start(2)
		<-time.After(2 * time.Second)
		n := c.start(0)
		for n.server.Layout().Epoch == 0 {
			<-time.After(time.Millisecond)
		}
		c.crash(0) // it has written the formation down; others may not know
		<-time.After(2 * time.Second)
		c.start(0)
		c.ready()
		c.open("a", 0, asp1).push()
	})
}

func TestNewDirectoryForAnOldServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil).up()
		c.halt(2)
		for _, dir := range []string{"s3", "logs/s3"} {
			if err := os.RemoveAll(filepath.Join(c.dir, dir)); err != nil {
				t.Fatal(err)
			}
		}
		n := c.start(2)
		err := <-n.ended
		n.cancel()
		c.nodes[2] = nil
		if err == nil || !strings.Contains(err.Error(), "retired") || !strings.Contains(err.Error(), "s3") {
			t.Errorf("a server without its old data: %v", err)
		}
		s := c.open("a", 0, asp1)
		s.push()
		s.want(1)
	})
}
