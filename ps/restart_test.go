package ps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

func TestRestartOfEachAndOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil).up()
		s := c.open("a", 0, asp1)
		for i := range 3 {
			c.halt(i)
			s.push() // the group goes on with two
			c.start(i)
			c.ready()
			c.crash(i)
			s.push()
			c.start(i)
			c.ready()
		}
		ids := fmt.Sprint(c.layout.Members)
		for i := range 3 {
			c.crash(i)
		}
		c.startAll()
		for i, n := range c.nodes {
			if got := fmt.Sprint(n.server.Layout().Members); got != ids {
				t.Errorf("server %d: members after the restart of all: %s, before %s", i+1, got, ids)
			}
		}
		s = c.open("a", 0, asp1)
		if s.step != 6 || s.inc != 2 {
			t.Errorf("resumes at step %d as incarnation %d, want 6 and 2", s.step, s.inc)
		}
		s.push()
		s.want(7)
	})
}

func TestLostLogRefusesAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil).up()
		s := c.open("a", 0, asp1)
		s.push()
		c.halt(1)
		if err := os.RemoveAll(filepath.Join(c.dir, "logs", "s2", "group-1")); err != nil {
			t.Fatal(err)
		}
		n := c.start(1)
		err := <-n.ended
		n.cancel()
		c.nodes[1] = nil
		if err == nil || !strings.Contains(err.Error(), "group 1") || !strings.Contains(err.Error(), "lost") || !strings.Contains(err.Error(), "retired") {
			t.Errorf("a server whose log is lost: %v", err)
		}
		s.push()
		s.want(2)
	})
}

func TestLogDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil).up()
		s := c.open("a", 0, asp1)
		if err := os.RemoveAll(filepath.Join(c.dir, "logs", "s3")); err != nil {
			t.Fatal(err)
		}
		n := c.nodes[2]
		err := <-n.ended
		n.cancel()
		c.nodes[2] = nil
		if err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("a server whose log was deleted under it: %v", err)
		}
		s.push()
		s.want(1)
	})
}
