package checkpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// childEnv is the folder of a child that is going to be killed.
const childEnv = "HCCLPS_CHECKPOINT_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// killModel is what checkpoint id holds: with each one page is another.
func killModel(id uint64) *model {
	m := someModel(30, 1)
	m.step = id
	m.blobs["head"] = fmt.Sprint("at ", id)
	ids := sorted(m.pages)
	for i := range ids {
		if n := uint64(len(ids)); id > uint64(i) {
			last := (id-uint64(i)-1)/n*n + uint64(i) + 1 // the last step that changed page i
			m.pages[ids[i]] = makePage(&twoTables()[ids[i].Table/2], ids[i], 3, last)
		}
	}
	return m
}

// child saves, retains and collects until it is killed, and says what it has saved.
func child(ctx context.Context, dir string) error {
	s, err := Open(Config{Dir: filepath.Join(dir, "d"), Owner: "s1", Catalogue: filepath.Join(dir, "c")})
	if err != nil {
		return err
	}
	last := uint64(0)
	switch m, err := s.Newest(ctx, testJob); {
	case err == nil:
		last = m.ID
	case !errors.Is(err, ErrNotFound):
		return err
	}
	for id := last + 1; ; id++ {
		base, changed := id-1, map[PageID]bool(nil)
		if id%5 == 1 {
			base = 0
		} else {
			before, now := killModel(base), killModel(id)
			changed = map[PageID]bool{}
			for p, b := range now.pages {
				changed[p] = before.pages[p] != b
			}
		}
		for p, is := range changed {
			if !is {
				delete(changed, p)
			}
		}
		if _, err := save(ctx, s, id, base, 2, killModel(id), changed); err != nil {
			return err
		}
		fmt.Println(id)
		if _, err := s.Retain(ctx, Policy{Job: testJob, Last: 2}); err != nil {
			return err
		}
		if _, err := s.Collect(ctx, id+1); err != nil {
			return err
		}
	}
}

// TestKill kills a process that writes, again and again: what it has acknowledged
// is there, and nothing else but whole checkpoints.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said := uint64(0)
	for range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, exe)
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		read := func() bool {
			if !lines.Scan() {
				return false
			}
			if _, err := fmt.Sscan(lines.Text(), &said); err != nil {
				t.Errorf("the child says %q", lines.Text())
			}
			return true
		}
		for range 1 + rand.IntN(8) {
			if !read() {
				t.Fatal("the child ended")
			}
		}
		<-time.After(time.Duration(rand.IntN(15)) * time.Millisecond) // into the next one
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for read() {
			continue
		}
		_ = cmd.Wait() // it was killed
		checkKilled(t, filepath.Join(dir, "d"), said)
	}
}

func checkKilled(t *testing.T, dir string, said uint64) {
	t.Helper()
	s, err := Open(Config{Dir: dir, Owner: "s2"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 || list[len(list)-1].ID < said || list[len(list)-1].ID > said+1 {
		t.Fatalf("checkpoint %d was acknowledged, there are %d", said, len(list))
	}
	for _, m := range list {
		mustBe(t, s, m.ID, killModel(m.ID))
	}
	if _, err := s.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}
