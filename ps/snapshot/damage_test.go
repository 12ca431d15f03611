package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hcclps/ps/corrupt"
)

func TestDamageIsNamed(t *testing.T) {
	dir := tempDir(t)
	s := mustOpen(t, Config{Dir: dir})
	mustSave(t, begin(t, s, 1), content{"older", map[uint64]string{1: "one"}}, nil)
	mustSave(t, begin(t, s, 2), content{"newer", map[uint64]string{1: "uno", 2: "dos"}}, nil)
	for _, name := range []string{"manifest-00000000000000000002", "pages-00000001"} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damaged := func(what string, b []byte) {
			t.Helper()
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Config{Dir: dir})
			var bad *corrupt.Error
			if !errors.As(err, &bad) || bad.File != path {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
		}
		for i := range whole {
			bent := bytes.Clone(whole)
			bent[i] ^= 1
			damaged(fmt.Sprintf("bit of byte %d turned", i), bent)
			damaged(fmt.Sprintf("cut to %d", i), whole[:i])
		}
		if name[0] == 'p' {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			var bad *corrupt.Error
			if _, err := Open(Config{Dir: dir}); !errors.As(err, &bad) || bad.File != path {
				t.Fatalf("missing: %v", err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, Config{Dir: dir})
}

// fullDisk has no space from the n-th write on.
type fullDisk struct {
	osDisk
	left *int
}

type fullFile struct {
	file
	left *int
}

func (d fullDisk) Create(name string) (file, error) {
	f, err := d.osDisk.Create(name)
	return fullFile{f, d.left}, err
}

func (d fullDisk) Append(name string) (file, error) {
	f, err := d.osDisk.Append(name)
	return fullFile{f, d.left}, err
}

func (f fullFile) Write(b []byte) (int, error) {
	if *f.left--; *f.left < 0 {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, unix.ENOSPC
	}
	return f.file.Write(b)
}

func TestFullDisk(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	for n := 0; ; n++ {
		left := 1000
		s := mustOpen(t, Config{Dir: tempDir(t), disk: fullDisk{left: &left}})
		first := content{"first", map[uint64]string{1: "one"}}
		mustSave(t, begin(t, s, 1), first, nil)
		before := listDir(t, s.cfg.Dir)
		left = n
		err := save(begin(t, s, 2), content{"second", map[uint64]string{1: big, 2: big}}, map[uint64]bool{1: true, 2: true})
		if err == nil {
			if n < 3 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
		if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		if after := listDir(t, s.cfg.Dir); after != before {
			t.Fatalf("before: %s\nafter:  %s", before, after)
		}
		left = 1000
		second := content{"again", map[uint64]string{1: "one", 2: big}}
		mustSave(t, begin(t, s, 2), second, map[uint64]bool{2: true})
		s = mustOpen(t, Config{Dir: s.cfg.Dir})
		if got := restore(t, s, newest(t, s).ID); !got.equal(second) {
			t.Fatal("restored something else")
		}
	}
}
