package raftlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hashicorp/raft"
)

const (
	childEnv = "HCCLPS_RAFTLOG_CHILD" // folder of the child's node: this process is a child to be killed
	killsEnv = "HCCLPS_RAFTLOG_KILLS" // number of kills
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir, os.Getenv(childEnv+"_SYNC") == "true", os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// killSize is the payload size of an entry: small ones, large ones, empty ones.
func killSize(index, term uint64) int {
	return []int{0, 100, 1 << 10, 5000, 64 << 10, 500_000}[(index*7+term*3)%6]
}

// report tells the parent: an acknowledged entry, or a cut that may or may not have happened (term 0).
func report(w io.Writer, index, term uint64) error {
	b := binary.LittleEndian.AppendUint64(nil, index)
	_, err := w.Write(binary.LittleEndian.AppendUint64(b, term))
	return err
}

// child appends, cuts suffixes and writes them again, and compacts, until it is killed.
func child(dir string, synced bool, w io.Writer) error {
	if err := report(w, 0, 1); err != nil {
		return err
	}
	s, err := OpenStore(filepath.Join(dir, "store"), Options{})
	if err != nil {
		return err
	}
	l, err := Open(Config{Dir: filepath.Join(dir, "log"), Group: 7, Store: s, Sync: synced, Budget: testBudget, SegmentSize: testSegment})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	stable := s.Group(7)
	term, err := stable.GetUint64([]byte("CurrentTerm"))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	term++
	if err := stable.SetUint64([]byte("CurrentTerm"), term); err != nil {
		return err
	}
	for i := 1; ; i++ {
		if err := childStep(l, stable, i, &term, w); err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		default:
		}
	}
}

func childStep(l *Log, stable *Stable, i int, term *uint64, w io.Writer) error {
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if i%13 == 0 && last > first+5 {
		*term++
		if err := errors.Join(stable.SetUint64([]byte("CurrentTerm"), *term), report(w, last-2, 0), l.DeleteRange(last-2, last)); err != nil {
			return err
		}
		last -= 3
	}
	if last > first+30 {
		if err := l.DeleteRange(1, last-20); err != nil {
			return err
		}
	}
	var es []*raft.Log
	for k := range uint64(i%3 + 1) {
		es = append(es, entry(last+1+k, *term, killSize(last+1+k, *term)))
	}
	for _, e := range es {
		if i%2 == 0 || len(e.Data) == 0 {
			continue
		}
		buf, release, err := l.Alloc(len(e.Data)) // as a follower does
		if err != nil {
			return err
		}
		defer release()
		copy(buf, e.Data)
		e.Data = buf
	}
	if err := l.StoreLogs(es); err != nil {
		return err
	}
	for _, e := range es {
		if err := report(w, e.Index, e.Term); err != nil {
			return err
		}
	}
	return nil
}

// acked is what the parent knows must be in the log.
type acked struct {
	terms map[uint64]uint64
	last  uint64
	cut   uint64 // entries from here on may be gone; 0: none
}

func (a *acked) take(index, term uint64) {
	if term == 0 {
		a.cut = index
		return
	}
	a.terms[index], a.last, a.cut = term, index, 0
}

// TestKill kills a real process with SIGKILL wherever it happens to be, and looks for every acknowledged entry.
func TestKill(t *testing.T) {
	kills := 20
	if s := os.Getenv(killsEnv); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		kills = n
	}
	dir := tempDir(t)
	a := acked{terms: map[uint64]uint64{}}
	r := rand.New(rand.NewPCG(uint64(kills), 5))
	inside := 0
	for k := range kills {
		before := a.last
		runChild(t, dir, k%2 == 1, r.IntN(60)*(k%5), &a)
		n := node{tb: t, root: dir, cfg: Config{Group: 7, Dir: filepath.Join(dir, "log"), Budget: testBudget, SegmentSize: testSegment}}
		n.mustOpen()
		if n.verify(&a) {
			inside++
		}
		n.close()
		if t.Failed() {
			t.Fatalf("after kill %d", k)
		}
		if k%5 > 0 && a.last == before && a.last == 0 {
			t.Logf("kill %d: nothing acknowledged yet", k)
		}
	}
	t.Logf("%d kills, %d of them left entries that were not acknowledged, log ends at %d", kills, inside, a.last)
	if a.last < uint64(kills) {
		t.Errorf("only %d entries were written", a.last)
	}
}

// runChild kills a child after some acknowledgements, counting all it made.
func runChild(t *testing.T, dir string, synced bool, after int, a *acked) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+dir, fmt.Sprintf("%s_SYNC=%v", childEnv, synced))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	in := bufio.NewReader(out)
	for i := 0; ; i++ {
		var b [16]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			break
		}
		if index := binary.LittleEndian.Uint64(b[:]); index > 0 {
			a.take(index, binary.LittleEndian.Uint64(b[8:]))
		}
		if i == after {
			must(t, c.Process.Kill())
		}
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("child was to be killed, but: %v", err)
	}
}

// verify compares the log with what was acknowledged; it is true when the log has more.
func (n *node) verify(a *acked) bool {
	n.tb.Helper()
	first, _ := n.log.FirstIndex()
	last, _ := n.log.LastIndex()
	floor := a.last
	if a.cut > 0 {
		floor = a.cut - 1
	}
	if last < floor || first > max(floor, 20)-14 {
		n.tb.Errorf("log holds %d to %d, acknowledged up to %d", first, last, floor)
	}
	for i := first; i <= last && i > 0; i++ {
		var e raft.Log
		if err := n.log.GetLog(i, &e); err != nil {
			n.tb.Errorf("entry %d: %v", i, err)
			continue
		}
		if want := a.terms[i]; i <= floor && e.Term != want {
			n.tb.Errorf("entry %d has term %d, acknowledged with %d", i, e.Term, want)
		}
		n.wantEntry(i, e.Term, killSize(i, e.Term))
		a.terms[i] = e.Term // the next child builds on it
	}
	more := last > a.last
	a.last, a.cut = last, 0
	return more
}
