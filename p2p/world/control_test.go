package world_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/world"
)

// soon is how fast a failure reaches every rank.
const soon = 3 * time.Second

// wantVerdict checks that all living ranks hear soon that rank failed, and why.
func (m *team) wantVerdict(rank int, dead map[int]bool, texts ...string) {
	m.t.Helper()
	for r := range m.worlds {
		if dead[r] {
			continue
		}
		v := m.verdict(r, soon)
		if v.Rank != rank || v.Info != fmt.Sprintf("at h%d, process %d", rank, 100+rank) {
			m.t.Errorf("rank %d blames %+v, want rank %d", r, v, rank)
		}
		want(m.t, v, p2p.ErrPeer, append(texts, fmt.Sprintf("rank %d (at h%d", rank, rank))...)
	}
}

// silence cuts a host off.
func (m *team) silence(host string) {
	var others []string
	for r := range m.worlds {
		if h := fmt.Sprintf("h%d", r); h != host {
			others = append(others, h)
		}
	}
	m.net.Partition([]string{host}, others)
}

func TestDeathIsHeard(t *testing.T) {
	for _, n := range []int{2, 5, 9} {
		for _, victim := range slices.Compact([]int{0, 1, n - 1}) {
			for how, die := range map[string]func(m *team, host string){
				"silent for 2s": (*team).silence,
				"connection closed": func(m *team, host string) {
					m.silence(host) // so that it does not tell what it sees of its end
					m.net.Kill(host)
				},
			} {
				t.Run(fmt.Sprintf("%d of %d %s", victim, n, how), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := start(t, n, nil)
						comms := m.comms("all", nil)
						wait(t.Context(), time.Minute) // all is well
						for r, w := range m.worlds {
							if rank, reason := w.Verdict(); rank >= 0 || reason != "" {
								t.Fatalf("rank %d: %v", r, w.Err())
							}
						}
						die(m, fmt.Sprintf("h%d", victim))
						m.wantVerdict(victim, map[int]bool{victim: true}, how)
						synctest.Wait()
						for r, c := range comms {
							if r != victim {
								err := c.Isend((r+1)%n, p2p.Bytes(nil)).Wait(t.Context())
								want(t, err, p2p.ErrClosed, fmt.Sprintf("rank %d (at h%d", victim, victim))
								want(t, err, p2p.ErrPeer)
							}
						}
					})
				})
			}
		}
	}
}

// A rank that is taken for dead is told so, if it can be.
func TestDeclaredDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 3, nil)
		m.net.Cut("h2", "h0")
		m.wantVerdict(2, nil, "silent for 2s")
	})
}

// What a rank says of its own failure is what all hear, itself too.
func TestFail(t *testing.T) {
	for rank := range 3 {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, 3, nil)
			m.worlds[rank].Fail("disk full" + strings.Repeat("!", 5000))
			m.wantVerdict(rank, nil, "disk full")
			for r := range m.worlds {
				if got, want := m.worlds[r].Err().Error(), m.worlds[0].Err().Error(); got != want {
					t.Errorf("rank %d is told %q, rank 0 %q", r, got, want)
				}
			}
			m.worlds[(rank+1)%3].Fail("and so what")
			synctest.Wait()
			m.wantVerdict(rank, nil, "disk full") // the first counts
			for r, stop := range m.stops {
				stop()
				want(t, <-m.ended[r], p2p.ErrPeer, "disk full")
			}
		})
	}
}

// A rank that leaves in good order is no failure.
func TestLeaving(t *testing.T) {
	for first := range 3 {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, 3, nil)
			comms := m.comms("all", nil)
			m.stops[first]()
			if err := <-m.ended[first]; err != nil {
				t.Errorf("run of rank %d: %v", first, err)
			}
			wait(t.Context(), time.Minute)
			a, b := (first+1)%3, (first+2)%3
			for _, r := range []int{a, b} {
				if v := m.worlds[r].Err(); v != nil {
					t.Errorf("rank %d: %v", r, v)
				}
			}
			recv := comms[a].Irecv(b, p2p.Bytes(make([]byte, 5)))
			check(t, p2p.Send(t.Context(), comms[b], a, p2p.Bytes(make([]byte, 5))))
			check(t, recv.Wait(t.Context()))
			err := p2p.Send(t.Context(), comms[a], first, p2p.Bytes(nil))
			want(t, err, p2p.ErrPeer, fmt.Sprintf("reach rank %d (at h%d", first, first), "has left: context canceled")
			want(t, comms[a].Irecv(b, p2p.Bytes(nil)).Wait(t.Context()), p2p.ErrClosed)
		})
	}
}

// Rank 0 may leave as soon as it knows a verdict: the others hear the verdict before.
func TestRankZeroLeavesWithTheVerdict(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, 4, nil)
			m.silence("h2")
			<-m.worlds[0].Failed()
			m.stops[0]()
			m.wantVerdict(2, map[int]bool{0: true, 2: true})
		})
	}
}

func TestPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 5, nil)
		long := strings.Repeat("x", 300)
		for r, w := range m.worlds {
			switch r {
			case 3: // says nothing
			case 4:
				w.Report([]byte(long))
			default:
				w.Report(fmt.Appendf(nil, "old %d", r))
				w.Report(fmt.Appendf(nil, "call %d", r))
			}
		}
		wants := []string{"call 0", "call 1", "call 2", "", long[:world.MaxPosition]}
		began := time.Now()
		for r, w := range m.worlds {
			m.wantPositions(w, r, wants)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("all that answer at once took %v", took)
		}
		// One that is silent is waited for a second, one that is gone is not.
		m.silence("h2")
		wants[2] = ""
		m.wantPositions(m.worlds[1], 1, wants)
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
		_ = m.verdict(1, soon)
		began = time.Now()
		m.wantPositions(m.worlds[4], 4, wants)
		m.wantPositions(m.worlds[0], 0, wants)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v after the death", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		wait(t.Context(), 2*time.Millisecond)
		_, err := m.worlds[1].Positions(ctx)
		want(t, err, context.DeadlineExceeded)
	})
}

func (m *team) wantPositions(w *world.World, r int, wants []string) {
	m.t.Helper()
	got, err := w.Positions(m.t.Context())
	check(m.t, err)
	for i, p := range got {
		if string(p) != wants[i] {
			m.t.Errorf("rank %d hears that rank %d is at %q, want %q", r, i, p, wants[i])
		}
	}
	if len(got) != len(wants) {
		m.t.Errorf("rank %d hears of %d ranks", r, len(got))
	}
}

// Many may ask at the same time.
func TestPositionsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 9, nil)
		done := make(chan error)
		for _, w := range m.worlds {
			w.Report([]byte{byte(w.Rank())})
		}
		for _, w := range m.worlds {
			for range 20 {
				go func() {
					got, err := w.Positions(t.Context())
					for r, p := range got {
						if len(p) != 1 || int(p[0]) != r {
							err = fmt.Errorf("rank %d hears that rank %d is at %v", w.Rank(), r, p)
						}
					}
					done <- err
				}()
			}
		}
		for range 9 * 20 {
			checkSoft(t, <-done)
		}
	})
}

func TestPositionsWithoutRankZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 3, nil)
		m.silence("h0")
		m.net.Kill("h0")
		_ = m.verdict(1, soon)
		synctest.Wait()
		_, err := m.worlds[1].Positions(t.Context())
		want(t, err, err, "the rendezvous has gone")
		m.stops[2]()
		if err := <-m.ended[2]; err == nil {
			t.Error("run of rank 2 does not say what happened")
		}
		if _, err = m.worlds[2].Positions(t.Context()); err == nil {
			t.Error("positions after the end")
		}
	})
}

func TestRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 2, nil)
		synctest.Wait()
		if err := m.worlds[1].Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ran already") {
			t.Errorf("second run: %v", err)
		}
		checkSoft(t, m.worlds[1].Close()) // does nothing
		wait(t.Context(), time.Minute)
		if v := m.worlds[0].Err(); v != nil {
			t.Error(v)
		}
	})
}

// A world that is closed before it runs has left.
func TestCloseBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, 1, nil)
		cfgs := []world.Config{config(m.net, 0, 2), config(m.net, 1, 2)}
		worlds, errs := openAll(t.Context(), cfgs...)
		check(t, errors.Join(errs...))
		check(t, worlds[1].Close())
		check(t, worlds[1].Close())
		if err := worlds[1].Run(t.Context()); err == nil {
			t.Error("it runs after close")
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		check(t, worlds[0].Run(ctx))
		if _, err := worlds[0].Comm(t.Context(), "late", nil); !errors.Is(err, p2p.ErrClosed) {
			t.Errorf("comm after the end: %v", err)
		}
	})
}
