package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
)

// churn appends and deletes until every segment that may be used again was.
func churn(n *node, from uint64) uint64 {
	n.tb.Helper()
	for range 100 {
		n.put(from, from, 9, 200_000)
		if err := n.log.DeleteRange(1, from-1); err != nil {
			n.tb.Fatal(err)
		}
		from++
	}
	return from
}

// TestStalledSender holds entries between GetLog and the socket while the log moves on: pinned bytes stay, unpinned
// ones do not, and what has gone cannot be pinned any more.
func TestStalledSender(t *testing.T) {
	n := newNode(t)
	n.put(1, 10, 1, 100_000)
	var pinned, stalled []*raft.Log
	for i := uint64(1); i <= 10; i++ {
		e := new(raft.Log)
		must(t, n.log.GetLog(i, e))
		if i <= 5 {
			pinned = append(pinned, e)
		} else {
			stalled = append(stalled, e)
		}
	}
	release, ok := n.log.Pin(pinned)
	if !ok {
		t.Fatal("entries of the log could not be pinned")
	}
	next := churn(n, 11)
	for _, e := range pinned {
		if !bytes.Equal(e.Data, payload(e.Index, 1, 100_000)) {
			t.Fatalf("pinned entry %d has foreign bytes", e.Index)
		}
	}
	if _, ok := n.log.Pin(pinned); ok {
		t.Fatal("deleted entries were pinned again")
	}
	release()
	release() // harmless
	next = churn(n, next)
	foreign := 0
	for _, e := range append(pinned, stalled...) {
		if !bytes.Equal(e.Data, payload(e.Index, 1, 100_000)) {
			foreign++
		}
	}
	if foreign == 0 {
		t.Fatal("segments are never used again: the test proves nothing")
	}
	// The same index, another term, and a copy elsewhere are not the entry either.
	e := new(raft.Log)
	must(t, n.log.GetLog(next-1, e))
	wrong, moved := *e, *e
	wrong.Term++
	moved.Data = bytes.Clone(e.Data)
	for _, es := range [][]*raft.Log{{&wrong}, {e, &moved}} {
		if _, ok := n.log.Pin(es); ok {
			t.Fatal("pinned what the log does not hold")
		}
	}
	for _, g := range n.log.files() {
		if p := g.pins.Load(); p != 0 {
			t.Fatalf("%s keeps %d pins", g.path, p)
		}
	}
}

func TestAllocStoresInPlace(t *testing.T) {
	n := newNode(t)
	var es []*raft.Log
	var releases []func()
	for i := uint64(1); i <= 12; i++ {
		buf, release, err := n.log.Alloc(150_000)
		must(t, err)
		if _, again, err := n.log.Alloc(70_000); err != nil { // a receive that is broken off leaves a hole
			t.Fatal(err)
		} else {
			again()
		}
		copy(buf, payload(i, 1, len(buf)))
		e := &raft.Log{Index: i, Term: 1, Data: buf}
		e.Extensions = binary.LittleEndian.AppendUint32(nil, crc32.Checksum(buf, castagnoli))
		es, releases = append(es, e), append(releases, release)
	}
	must(t, n.log.StoreLogs(es))
	for i, e := range es {
		var got raft.Log
		must(t, n.log.GetLog(e.Index, &got))
		if &got.Data[0] != &e.Data[0] {
			t.Fatalf("entry %d was copied", e.Index)
		}
		releases[i]()
	}
	n.crash()
	n.mustOpen()
	n.want(1, 12)
	for i := uint64(1); i <= 12; i++ {
		n.wantEntry(i, 1, 150_000)
	}
	buf, release, err := n.log.Alloc(0)
	if len(buf) != 0 || err != nil {
		t.Fatal(buf, err)
	}
	release()
}

// TestAllocBeforeTruncation: space whose segment was retired by a truncation is copied, and stays pinned till then.
func TestAllocBeforeTruncation(t *testing.T) {
	n := newNode(t)
	n.put(1, 9, 1, 100_000)
	buf, release, err := n.log.Alloc(300_000) // begins the next segment
	must(t, err)
	copy(buf, payload(5, 2, len(buf)))
	must(t, n.log.DeleteRange(5, 9))
	n.put(5, 8, 3, 200_000)
	must(t, n.log.DeleteRange(5, 8))
	must(t, n.log.StoreLog(&raft.Log{Index: 5, Term: 2, Data: buf}))
	release()
	n.wantEntry(5, 2, 300_000)
	n.reopen()
	n.wantEntry(4, 1, 100_000)
	n.wantEntry(5, 2, 300_000)
}

func TestPinsOutliveClose(t *testing.T) {
	n := newNode(t)
	n.put(1, 1, 1, 1000)
	e := new(raft.Log)
	must(t, n.log.GetLog(1, e))
	release, ok := n.log.Pin([]*raft.Log{e})
	if !ok {
		t.Fatal("not pinned")
	}
	l := n.log
	n.close()
	if !bytes.Equal(e.Data, payload(1, 1, 1000)) {
		t.Fatal("pinned bytes changed")
	}
	if len(l.dead) != 1 {
		t.Fatalf("%d segments are mapped", len(l.dead))
	}
	release()
	if len(l.dead) != 0 {
		t.Fatal("the segment is still mapped")
	}
}

// TestConcurrentUse runs a writer that appends and truncates beside readers, pinning senders and a marker.
func TestConcurrentUse(t *testing.T) {
	for _, synced := range []bool{false, true} {
		t.Run(fmt.Sprint("sync ", synced), func(t *testing.T) {
			n := newNode(t, func(c *Config) { c.Sync = synced })
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for r := range 3 {
				wg.Go(func() { reader(n.log, stop, uint64(r), t.Errorf) })
			}
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if err := errors.Join(n.log.putMark(), n.log.trim(), n.log.inspect()); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
			last, term := uint64(0), uint64(1)
			r := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				switch k := r.IntN(20); {
				case k == 0 && last > 20:
					term++
					last -= 5
					must(t, n.log.DeleteRange(last+1, last+5))
				case k < 4 && last > 30:
					must(t, n.log.DeleteRange(1, last-20))
				default:
					m := uint64(r.IntN(4) + 1)
					n.put(last+1, last+m, term, r.IntN(60_000))
					last += m
				}
			}
			close(stop)
			wg.Wait()
			n.reopen()
			if got, _ := n.log.LastIndex(); got != last {
				t.Fatalf("log ends at %d, want %d", got, last)
			}
		})
	}
}

// reader checks that what it pinned is what was stored, whatever happens meanwhile.
func reader(l *Log, stop <-chan struct{}, seed uint64, errorf func(string, ...any)) {
	r := rand.New(rand.NewPCG(seed, 0))
	for {
		select {
		case <-stop:
			return
		default:
		}
		first, _ := l.FirstIndex()
		last, _ := l.LastIndex()
		e := new(raft.Log)
		if last == 0 || l.GetLog(first+r.Uint64N(last-first+1), e) != nil {
			continue
		}
		if release, ok := l.Pin([]*raft.Log{e}); ok {
			if sum, ok := l.Checksum(e); ok && sum != crc32.Checksum(e.Data, castagnoli) {
				errorf("entry %d of term %d fails its checksum", e.Index, e.Term)
			}
			if !bytes.Equal(e.Data, payload(e.Index, e.Term, len(e.Data))) {
				errorf("entry %d of term %d has foreign bytes", e.Index, e.Term)
			}
			release()
		}
		l.TrailingFor(1 << 20)
		l.Bytes()
	}
}
