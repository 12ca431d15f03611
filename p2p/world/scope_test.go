package world_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What fails in a scope is told to all, also to who comes to it later, and the world goes on.
func TestScopeFailsAlone(t *testing.T) {
	for fails := range 3 {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, 3, nil)
			part, other := m.worlds[fails].Scope("part"), m.worlds[fails].Scope("other")
			part.Fail("calls differ")
			synctest.Wait()
			m.worlds[(fails+1)%3].Scope("part").Fail("and so what")
			synctest.Wait()
			for r, w := range m.worlds {
				select {
				case <-w.Scope("part").Failed():
				default:
					t.Fatalf("rank %d has not heard of it", r)
				}
				if rank, reason := w.Scope("part").Verdict(); rank != fails || reason != "calls differ" {
					t.Errorf("rank %d blames rank %d for %q", r, rank, reason)
				}
				if err := w.Err(); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			if rank, _ := other.Verdict(); rank >= 0 {
				t.Errorf("another scope blames rank %d", rank)
			}
			talk(t, m.comms("all", nil))
			m.silence("h2")
			_ = m.verdict(0, soon)
			synctest.Wait()
			if rank, _ := m.worlds[0].Scope("other").Verdict(); rank != 2 {
				t.Errorf("a scope blames rank %d for what ends the world", rank)
			}
			if rank, _ := m.worlds[0].Scope("new").Verdict(); rank != 2 {
				t.Errorf("a new scope blames rank %d for what ended the world", rank)
			}
			if rank, _ := m.worlds[1].Scope("part").Verdict(); rank != fails {
				t.Errorf("the scope that failed before blames rank %d", rank)
			}
		})
	}
}

// Each scope has positions of its own.
func TestScopePositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 4, nil)
		for r, w := range m.worlds {
			w.Report(fmt.Append(nil, "world ", r))
			if r < 3 {
				w.Scope("a").Report(fmt.Append(nil, "a ", r))
			}
			if r > 0 {
				w.Scope("b").Report(fmt.Append(nil, "b ", r))
			}
		}
		done := make(chan error)
		asked := 0
		for r, w := range m.worlds {
			for what, c := range map[string]interface {
				Positions(ctx context.Context) ([][]byte, error)
			}{"world": w, "a": w.Scope("a"), "b": w.Scope("b")} {
				asked++
				go func() {
					got, err := c.Positions(t.Context())
					for i, p := range got {
						want := fmt.Sprint(what, " ", i)
						if what == "a" && i == 3 || what == "b" && i == 0 {
							want = ""
						}
						if string(p) != want {
							err = fmt.Errorf("rank %d hears that rank %d is at %q in %s", r, i, p, what)
						}
					}
					done <- err
				}()
			}
		}
		for range asked {
			checkSoft(t, <-done)
		}
		silent, positions, reasons, err := m.worlds[1].Scope("b").Health(t.Context())
		check(t, err)
		if len(silent) != 4 || silent[3] < 0 || silent[3] > time.Second || string(positions[3]) != "b 3" || positions[0] != nil || reasons[3] != "" {
			t.Errorf("the health of a scope is %v, %q, %q", silent, positions, reasons)
		}
	})
}
