package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// logs makes a folder of logs in memory as a server does, with one group, an hour ago; locked while a process has it open.
func logs(t *testing.T, places Places, name string, locked bool) string {
	t.Helper()
	return folder(t, filepath.Join(places.Memory, name), locked)
}

func folder(t *testing.T, dir string, locked bool) string {
	t.Helper()
	group := filepath.Join(dir, "g00000001")
	if err := os.MkdirAll(group, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "00000001.seg"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(group, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if locked {
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	return dir
}

// flight makes a file as a worker that fails does, an hour ago.
func flight(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCleanRemovesOnlyWhatNobodyCanNeed(t *testing.T) {
	p := Places{Memory: t.TempDir(), Temporary: t.TempDir(), Age: time.Minute}
	gone := []string{
		logs(t, p, "hcclps-launch-abcdefgh-s1", false),
		logs(t, p, "hcclps-launch-abcdefgh-s2", false),
		logs(t, p, "hcclps-local-abcdefgh", false),
		logs(t, p, "hcclps-bench-abcdefgh-s1", false),
		folder(t, filepath.Join(p.Temporary, "hcclps-launch-123"), false),
		folder(t, filepath.Join(p.Temporary, "hcclps-local-123"), false),
	}
	told := flight(t, filepath.Join(p.Temporary, "hcclps-flight-job-worker-1-7.json"))
	kept := []string{
		logs(t, p, "hcclps-launch-ijklmnop-s1", true),
		logs(t, p, "hcclps-launch-ijklmnop-s2", false),         // being started again
		logs(t, p, "hcclps-launch-abcdefghijklmnop-s1", false), // of named folders
		logs(t, p, "hcclps-local-abcdefghijklmnop", false),
		logs(t, p, "hcclps-prod-s1", false),
		logs(t, p, "hcclps-prod-s2", true),
		logs(t, p, "hcclps-launch-qrstuvwx-s1", false),
		logs(t, p, "someone-else", false),
		folder(t, filepath.Join(p.Temporary, "hcclps-launch-456"), true),
		folder(t, filepath.Join(p.Temporary, "hcclps-launch-mine"), false),
	}
	young := kept[6]
	if now := time.Now(); os.Chtimes(young, now, now) != nil {
		t.Fatal("cannot set the time of", young)
	}
	m := healthy()
	var err error
	if m.leftovers, err = p.Leftovers(); err != nil {
		t.Fatal(err)
	}
	r := m.examine(t, Options{})
	for _, d := range gone {
		r.want(t, "leftovers", Warn, d, "1000 B", "--clean")
	}
	r.want(t, "leftovers", OK, told, "ps-worker profile", "--clean")
	gone = append(gone, told)
	for _, name := range []string{"hcclps-prod-s1", "hcclps-launch-abcdefghijklmnop-s1", "hcclps-local-abcdefghijklmnop"} {
		r.want(t, "leftovers", OK, name, "start again", "rm -r")
	}

	removed, err := p.Clean()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, l := range removed {
		paths = append(paths, l.Path)
	}
	slices.Sort(paths)
	if slices.Sort(gone); !slices.Equal(paths, gone) {
		t.Errorf("removed %q, want %q", paths, gone)
	}
	for _, d := range gone {
		if _, err := os.Stat(d); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", d, err)
		}
	}
	for _, d := range kept {
		if _, err := os.Stat(filepath.Join(d, "g00000001", "00000001.seg")); err != nil {
			t.Errorf("%s was touched: %v", d, err)
		}
	}
	if removed, err = p.Clean(); err != nil || len(removed) > 0 {
		t.Errorf("a second time removed %v: %v", removed, err)
	}
}

func TestCleanWithoutMemoryFileSystem(t *testing.T) {
	p := Places{Memory: filepath.Join(t.TempDir(), "none"), Temporary: t.TempDir()}
	if _, err := p.Clean(); err == nil {
		t.Error("a missing folder was cleaned")
	}
}

// What many workers left is one line.
func TestFlightsAreCounted(t *testing.T) {
	for n, want := range map[int]string{1: "/tmp/0 has the last operations of a worker", 3: "3 files such as /tmp/2 have the last operations"} {
		var all []Leftover
		for i := range n {
			all = append(all, Leftover{Path: fmt.Sprintf("/tmp/%d", i), Read: true})
		}
		got := checkLeftovers(t.Context(), &patient{System: System{Leftovers: func() ([]Leftover, error) { return all, nil }}})
		if len(got) != 1 || got[0].Level != OK || !strings.Contains(got[0].What, want) {
			t.Errorf("%d: %+v", n, got)
		}
	}
}
