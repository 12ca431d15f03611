package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

var errPower = errors.New("the power is off")

// crashDisk stops at the n-th operation; the operation itself is done by half. lose then makes the folder what a disk would hold that
// had written only what was synced.
type crashDisk struct {
	left    int
	made    map[string]bool   // names since the last SyncDir
	renamed map[string]string // new name -> old name, since the last SyncDir
	before  map[string][]byte // what stood under the names replaced or removed since; page files are gone at once, the worst case
	synced  map[string]int64  // bytes of every file made or opened that would survive
}

func newCrashDisk(n int) *crashDisk {
	return &crashDisk{left: n, made: map[string]bool{}, renamed: map[string]string{}, before: map[string][]byte{}, synced: map[string]int64{}}
}

func (d *crashDisk) off() bool {
	d.left--
	return d.left < 0
}

func (d *crashDisk) Create(name string) (file, error) {
	if d.off() {
		return nil, errPower
	}
	f, err := osDisk{}.Create(name)
	if err == nil {
		d.made[name], d.synced[name] = true, 0
	}
	return &crashFile{f, d, name}, err
}

func (d *crashDisk) Append(name string) (file, error) {
	if d.off() {
		return nil, errPower
	}
	f, err := osDisk{}.Append(name)
	if info, e := os.Stat(name); e == nil && d.synced[name] == 0 {
		d.synced[name] = info.Size()
	}
	return &crashFile{f, d, name}, err
}

func (d *crashDisk) Rename(from, to string) error {
	if d.off() {
		return errPower
	}
	d.keep(to)
	d.renamed[to] = from
	d.synced[to] = d.synced[from]
	return os.Rename(from, to)
}

func (d *crashDisk) Remove(name string) error {
	if d.off() {
		return errPower
	}
	if strings.Contains(name, "manifest") && !strings.HasSuffix(name, ".tmp") {
		d.keep(name)
	}
	return os.Remove(name)
}

func (d *crashDisk) keep(name string) {
	if b, err := os.ReadFile(name); err == nil {
		d.before[name] = b
	}
}

func (d *crashDisk) SyncDir(name string) error {
	if d.off() {
		return errPower
	}
	clear(d.made)
	clear(d.renamed)
	clear(d.before)
	return osDisk{}.SyncDir(name)
}

type crashFile struct {
	file
	d    *crashDisk
	name string
}

func (f *crashFile) Write(b []byte) (int, error) {
	if f.d.off() {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, errPower
	}
	return f.file.Write(b)
}

func (f *crashFile) Sync() error {
	if f.d.off() {
		return errPower
	}
	info, err := os.Stat(f.name)
	if err == nil {
		f.d.synced[f.name] = info.Size()
	}
	return errors.Join(err, f.file.Sync())
}

func (f *crashFile) Truncate(size int64) error {
	if f.d.off() {
		return errPower
	}
	f.d.synced[f.name] = min(f.d.synced[f.name], size)
	return f.file.Truncate(size)
}

// What a test does when the work has stopped.
const (
	killed     = iota // the process only
	powerLost         // unsynced bytes, and all that happened to names since the last SyncDir
	namesMixed        // as powerLost, but renames and removals have reached the disk before the making of files
	crashKinds
)

// lose makes of the folder what a loss of power leaves.
func (d *crashDisk) lose(t *testing.T, kind int) {
	t.Helper()
	if kind == killed {
		return
	}
	if kind == powerLost {
		for to, from := range d.renamed {
			if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			delete(d.synced, to)
			delete(d.synced, from)
		}
		for name, b := range d.before {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, size := range d.synced {
		if d.made[name] {
			size = -1
		}
		switch info, err := os.Stat(name); {
		case err != nil:
		case size < 0:
			err = os.Remove(name)
			if err != nil {
				t.Fatal(err)
			}
		case info.Size() > size:
			if err := os.Truncate(name, size); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// crashWork is three snapshots, the last of which leaves enough dead bytes for a compaction, and a fourth.
func crashWork(t *testing.T, dir string, d disk) (acknowledged []content) {
	t.Helper()
	s, err := Open(Config{Dir: dir, Retain: 1, disk: d})
	if err != nil {
		return nil
	}
	c := content{"0", map[uint64]string{1: "one", 2: strings.Repeat("two", 1000), 3: strings.Repeat("three", 1000)}}
	for i := range uint64(3) {
		c = c.clone()
		c.head = fmt.Sprint(i)
		c.pages[2] = strings.Repeat(c.head, 2000)
		c.pages[3] = strings.Repeat(c.head, 3000)
		dirty := map[uint64]bool{2: true, 3: true}
		if i == 0 {
			dirty = nil
		}
		if err := save(begin(t, s, i+1), c, dirty); err != nil {
			return acknowledged
		}
		acknowledged = append(acknowledged, c)
	}
	if victims := s.victims(); len(victims) > 0 {
		_ = s.compact(t.Context(), victims)
	}
	// Another sink has the tail: the last snapshot has a file of its own, and those before it go.
	held := begin(t, s, 50)
	if err := held.WriteHead([]byte("never")); err != nil {
		return acknowledged
	}
	c = c.clone()
	c.head = "3"
	c.pages[2] = strings.Repeat(c.head, 2000)
	if err := save(begin(t, s, 4), c, nil); err == nil {
		acknowledged = append(acknowledged, c)
	}
	_ = held.Cancel()
	return acknowledged
}

// TestCrash stops the work at every operation, with and without the unsynced bytes, and opens what is left.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := tempDir(t)
		for n := 0; ; n++ {
			done := true
			for kind := range crashKinds {
				dir := filepath.Join(root, fmt.Sprint(n, kind))
				d := newCrashDisk(n)
				acknowledged := crashWork(t, dir, d)
				done = done && d.left >= 0
				d.lose(t, kind)
				s, err := Open(Config{Dir: dir, Retain: 1})
				if err != nil {
					t.Fatalf("stopped at operation %d, kind %d: %v", n, kind, err)
				}
				checkAfterCrash(t, s, n, acknowledged)
				next := content{"next", map[uint64]string{1: "1"}}
				mustSave(t, begin(t, s, 99), next, nil)
				if got := restore(t, mustOpen(t, Config{Dir: dir}), newest(t, s).ID); !got.equal(next) {
					t.Fatal("restored something else")
				}
			}
			if done {
				if n < 20 {
					t.Fatalf("only %d operations", n)
				}
				return
			}
		}
	})
}

// checkAfterCrash demands the last acknowledged snapshot, or the whole one after it.
func checkAfterCrash(t *testing.T, s *Store, n int, acknowledged []content) {
	t.Helper()
	for name := range strings.FieldsSeq(listDir(t, s.cfg.Dir)) {
		if strings.HasSuffix(name, ".tmp") {
			t.Fatalf("operation %d left %s", n, name)
		}
	}
	meta := newest(t, s)
	if meta.Index < uint64(len(acknowledged)) {
		t.Fatalf("operation %d: %d snapshots were acknowledged, the newest is %d", n, len(acknowledged), meta.Index)
	}
	if meta.ID == "" {
		return
	}
	got := restore(t, s, meta.ID)
	want := fmt.Sprint(meta.Index - 1)
	if got.head != want || len(got.pages) != 3 || got.pages[1] != "one" || got.pages[2] != strings.Repeat(want, 2000) {
		t.Fatalf("operation %d: snapshot %d holds something else", n, meta.Index)
	}
}
