package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/shm"
)

// slowed is a shared memory that needs time for each message.
type slowed struct{ *shm.Comm }

func (s slowed) Isend(peer int, b p2p.Buffer) *p2p.Request {
	r, done := p2p.NewRequest()
	go func() {
		<-time.After(200 * time.Millisecond)
		done.Complete(s.Comm.Isend(peer, b).Wait(context.Background()))
	}()
	return r
}

// TestTheFasterIsKept: whichever is slowed loses, both sides say the same, and bytes go over what is kept.
func TestTheFasterIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addr    string
		stripes int
		slowSHM bool
		slowTCP bool
		want    ways
	}{
		"slow tcp":           {"127.0.0.1:0", 2, false, true, viaSHM},
		"slow shared memory": {"127.0.0.1:0", 1, true, false, viaTCP},
		"and 3 connections":  {"127.0.0.1:0", 3, true, false, viaTCP},
		"over unix sockets":  {"unix", 2, true, false, viaTCP},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.addr == "unix" {
				c.addr = "unix:" + filepath.Join(t.TempDir(), "s")
			}
			ends := p2ptest.Connect(t, c.addr, c.stripes)
			if c.slowTCP {
				for _, conns := range ends {
					for i, conn := range conns {
						conns[i] = p2ptest.Shape{Bandwidth: 20e6}.Conn(conn)
					}
				}
			}
			var verdicts [2]verdict
			var comms [2]link.Comm
			var both errgroup.Group
			for rank, conns := range ends {
				both.Go(func() (err error) {
					b, err := NewBulk(Config{Transport: Measure})
					if err != nil {
						return err
					}
					all := b.candidates(viaSHM | viaTCP)
					if c.slowSHM {
						open := all[0].open
						all[0].open = func(ctx context.Context, conns []net.Conn, rank int) (link.Comm, error) {
							comm, err := open(ctx, conns, rank)
							if err != nil {
								return nil, err
							}
							return slowed{comm.(*shm.Comm)}, nil
						}
					}
					if verdicts[rank], err = b.measure(t.Context(), conns, rank, all); err != nil {
						return err
					}
					comms[rank], err = b.make(t.Context(), conns, rank, choice{try: verdicts[rank].picked})
					return err
				})
			}
			if err := both.Wait(); err != nil {
				t.Fatal(err)
			}
			if verdicts[0] != verdicts[1] || verdicts[0].picked != c.want {
				t.Errorf("%+v and %+v, want %v", verdicts[0], verdicts[1], c.want)
			}
			for i, seen := range verdicts[0].seen {
				if seen.known() != (ways(1<<i) != viaHCCL) {
					t.Errorf("%v: %v", ways(1<<i), seen)
				}
			}
			exchangeBytes(t, comms)
		})
	}
}

// exchangeBytes sends a message over a pair and ends it.
func exchangeBytes(t *testing.T, comms [2]link.Comm) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var run errgroup.Group
	for _, c := range comms {
		run.Go(func() error { return c.Run(ctx) })
	}
	got, sent := make([]byte, 300_000), []byte(strings.Repeat("abc", 100_000))
	recv := comms[1].Irecv(0, p2p.Bytes(got))
	err := p2p.Send(ctx, comms[0], 1, p2p.Bytes(sent))
	if err = errors.Join(err, recv.Wait(ctx)); err != nil || string(got) != string(sent) {
		t.Errorf("transfer over what is kept: %v", err)
	}
	for _, c := range comms {
		_ = c.Close()
	}
	if err := run.Wait(); err != nil && !errors.Is(err, p2p.ErrPeer) { // the other side may have closed first
		t.Errorf("run: %v", err)
	}
}

// TestMeasuredPair goes the whole way: one side measures, the other takes what comes.
func TestMeasuredPair(t *testing.T) {
	ends := p2ptest.Connect(t, "127.0.0.1:0", 1)
	var comms [2]link.Comm
	var bulks [2]*Bulk
	var both errgroup.Group
	for rank, transport := range []Transport{Measure, Auto} {
		both.Go(func() (err error) {
			if bulks[rank], err = NewBulk(Config{Transport: transport}); err != nil {
				return err
			}
			comms[rank], err = bulks[rank].Pair(t.Context(), ends[rank], rank)
			return err
		})
	}
	if err := both.Wait(); err != nil {
		t.Fatal(err)
	}
	picks := [2][]Pick{bulks[0].Picks(), bulks[1].Picks()}
	for rank, p := range picks {
		if len(p) != 1 || p[0].Peer != ends[rank][0].RemoteAddr().String() || !strings.Contains(p[0].Reason, "measured at 1 and 16 MiB: tcp ") {
			t.Fatalf("rank %d: %+v", rank, p)
		}
	}
	if picks[0][0].By != picks[1][0].By || picks[0][0].Reason != picks[1][0].Reason {
		t.Errorf("the sides differ: %+v", picks)
	}
	if _, shared := comms[0].(*shm.Comm); shared != (picks[0][0].By == SHM) {
		t.Errorf("%T was made of %+v", comms[0], picks[0])
	}
	exchangeBytes(t, comms)
}

// TestPeerThatDiesInATrial: the other side hears of it at once, not when the trial is over.
func TestPeerThatDiesInATrial(t *testing.T) {
	for _, way := range []ways{viaSHM, viaTCP} {
		t.Run(way.String(), func(t *testing.T) {
			ends := p2ptest.Connect(t, "127.0.0.1:0", 1)
			b, err := NewBulk(Config{Transport: Measure})
			if err != nil {
				t.Fatal(err)
			}
			all := b.candidates(way)
			peerGone := make(chan error, 1)
			go func() {
				_, lent := lend(ends[1])
				comm, err := all[0].open(t.Context(), lent, 1)
				if err == nil {
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- comm.Run(ctx) }()
					err = p2p.Recv(t.Context(), comm, 0, p2p.Bytes(make([]byte, 1))) // there is a round
					_ = ends[1][0].Close()
					cancel()
					_ = errors.Join(err, <-ended) // that it ended is what matters
				}
				peerGone <- err
			}()
			_, err = b.measure(t.Context(), ends[0], 0, all)
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("measured with a dead peer: %v", err)
			}
			if err := <-peerGone; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSlowLink: a trial ends in time although 16 MiB would not, and says what it can.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	ends := p2ptest.Connect(t, "127.0.0.1:0", 1)
	for _, conns := range ends {
		conns[0] = p2ptest.Shape{Bandwidth: 8e6}.Conn(conns[0])
	}
	b, err := NewBulk(Config{})
	if err != nil {
		t.Fatal(err)
	}
	var seen [2]timing
	var both errgroup.Group
	for rank, conns := range ends {
		both.Go(func() (err error) {
			seen[rank], err = try(t.Context(), conns, rank, b.candidates(viaTCP)[0])
			return err
		})
	}
	if err := both.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := rate(largeTrial, seen[0].large); got > 0.009 || seen[0].large != 16*seen[0].small {
		t.Errorf("%v of a link of 0.008 GB/s", seen[0])
	}
}

// TestWhatIsMeasured is the table of who is tried.
func TestWhatIsMeasured(t *testing.T) {
	const here, there = 1, 2
	config := func(transport Transport, device string) Config { return Config{Transport: transport, Device: device} }
	for _, c := range []struct {
		name     string
		a, b     Config
		machines [2]uint64
		want     ways
		better   bool
	}{
		{"auto", config(Auto, ""), config(Auto, ""), [2]uint64{here, here}, 0, false},
		{"one side", config(Measure, ""), config(Auto, ""), [2]uint64{here, here}, viaTCP | viaSHM, false},
		{"both", config(Measure, ""), config(Measure, ""), [2]uint64{here, here}, viaTCP | viaSHM, false},
		{"two hosts", config(Measure, ""), config(Measure, ""), [2]uint64{here, there}, 0, false},
		{"unknown hosts", config(Measure, ""), config(Auto, ""), [2]uint64{0, there}, viaTCP | viaSHM, false},
		{"by name there", config(Measure, ""), config(SHM, ""), [2]uint64{here, here}, 0, false},
		{"tcp there", config(Measure, ""), config(TCP, ""), [2]uint64{here, here}, 0, false},
		{"devices on one host", config(Measure, "0"), config(Auto, "1"), [2]uint64{here, here}, viaTCP | viaSHM | viaHCCL, true},
		{"devices on two hosts", config(Measure, "0"), config(Measure, "0"), [2]uint64{here, there}, viaTCP | viaHCCL, true},
		{"one device on two hosts", config(Measure, "0"), config(Measure, ""), [2]uint64{here, there}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := c.a.offer(c.machines[0]), c.b.offer(c.machines[1])
			for _, side := range [][2]offer{{a, b}, {b, a}} { // both ends decide alike
				if got := measured(side[0], side[1]); got != c.want {
					t.Errorf("measured: %v, want %v", got, c.want)
				}
				if got := better(side[0], side[1]); got != c.better {
					t.Errorf("better: %v, want %v", got, c.better)
				}
			}
		})
	}
}

// TestFastest is the choice among what was measured.
func TestFastest(t *testing.T) {
	ms := func(small, large int) timing {
		return timing{time.Duration(small) * time.Millisecond, time.Duration(large) * time.Millisecond}
	}
	for _, c := range []struct {
		seen figures // tcp, shm, hccl
		want ways
	}{
		{figures{}, 0},
		{figures{ms(1, 16)}, viaTCP},
		{figures{ms(1, 16), ms(1, 16)}, viaSHM},
		{figures{ms(1, 16), ms(1, 17)}, viaTCP},
		{figures{ms(1, 40), ms(2, 20)}, viaSHM},
		{figures{ms(1, 10), ms(2, 20)}, viaTCP},
		{figures{ms(2, 20), {}, ms(1, 10)}, viaHCCL},
		{figures{ms(2, 20), ms(1, 10), ms(3, 3)}, viaSHM},
	} {
		if got := c.seen.fastest(); got != c.want {
			t.Errorf("%v: %v, want %v", c.seen, got, c.want)
		}
	}
}

func FuzzVerdict(f *testing.F) {
	f.Add(verdict{viaSHM, figures{{1, 2}, {3, 4}}}.encode())
	f.Add(verdict{viaHCCL, figures{{}, {}, {3, 4}}}.encode())
	f.Add([]byte(verdictMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeVerdict(b)
		if err == nil && string(v.encode()) != string(b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, v, v.encode())
		}
	})
}

// TestARecordIsBounded and keeps the latest choice of each pair.
func TestARecordIsBounded(t *testing.T) {
	b := &Bulk{}
	for i := range 3 * maxPicks {
		b.record.add(Pick{Peer: fmt.Sprint(i)}, figures{{time.Duration(i), 1}})
	}
	b.record.add(Pick{Peer: "100", By: HCCL}, figures{})
	b.record.add(Pick{Peer: fmt.Sprint(3*maxPicks - 1), By: SHM}, figures{{7, 7}})
	picks := b.Picks()
	if last := picks[len(picks)-1]; len(picks) != maxPicks || last.By != SHM || last.At.IsZero() {
		t.Errorf("%d picks, the last %+v", len(picks), last)
	}
	if got := b.record.seen(fmt.Sprint(3*maxPicks - 1))[0].small; got != 7 {
		t.Errorf("measured %d, want 7", got)
	}
}
