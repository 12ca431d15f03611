package world_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/world"
)

const elasticVar = "HCCLPS_TEST_WORLD_ELASTIC"

// playElastic is a rank in a process of its own that goes on through failures, until its standard input ends. It prints every epoch and every verdict.
func playElastic(ctx context.Context, transport string, out io.Writer) error {
	ctx, stop := context.WithTimeout(ctx, 8*patience)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	cfg, err := world.Env(os.LookupEnv)
	if err != nil {
		return err
	}
	bulk, err := backend.NewBulk(backend.Config{Transport: backend.Transport(transport)})
	if err != nil {
		return err
	}
	cfg.Pair, cfg.Info, cfg.Gather = bulk.Pair, fmt.Sprintf("process %d", os.Getpid()), patience
	cfg.Suspect = patience // the machine may be busy, and a process that is killed is heard of at once
	if cfg.Network, err = backend.OpenSockets(backend.Sockets{}); err != nil {
		return err
	}
	w, err := world.Open(ctx, cfg)
	for err == nil {
		var running errgroup.Group
		running.Go(func() error { return w.Run(ctx) })
		err := step(ctx, w, out)
		if ctx.Err() != nil {
			_ = running.Wait() // it may have heard of others that ended
			return nil
		}
		if err != nil {
			select {
			case <-w.Failed():
			case <-ctx.Done():
			}
			rank, _ := w.Verdict()
			fmt.Fprintf(out, "verdict %d: %v\n", rank, w.Err())
		}
		next, err := w.Rebuild(ctx)
		if err := errors.Join(err, running.Wait()); err != nil {
			return err
		}
		w = next
	}
	return err
}

// step exchanges messages between all, again and again, until that fails or, at one point for all, a process waits to be let in.
func step(ctx context.Context, w *world.World, out io.Writer) error {
	c, err := w.Comm(ctx, "all", nil)
	if err != nil {
		return err
	}
	const size = 64 << 10
	in, mine := make([][]byte, c.Size()), make([]byte, size)
	for r := range in {
		in[r] = make([]byte, size)
	}
	for i := 0; ; i++ {
		mine[0] = min(1, byte(w.Waiting()))
		mine[1] = byte(i)
		var reqs []*p2p.Request
		for r := range in {
			if r != c.Rank() {
				reqs = append(reqs, c.Irecv(r, p2p.Bytes(in[r])), c.Isend(r, p2p.Bytes(mine)))
			}
		}
		for _, r := range reqs {
			if err := r.Wait(ctx); err != nil {
				return err
			}
		}
		copy(in[c.Rank()], mine)
		waits := false
		for r, b := range in {
			waits = waits || b[0] > 0
			if b[1] != byte(i) {
				return fmt.Errorf("rank %d is at step %d, this one at %d", r, b[1], i)
			}
		}
		if i == 3 {
			fmt.Fprintf(out, "epoch %d rank %d of %d joined %d files %d\n", w.Epoch(), w.Rank(), w.Size(), w.Joined(), openFiles())
		}
		if waits && i >= 3 {
			return nil
		}
	}
}

func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}

// Eight processes: any of them is killed in the middle of what it does, ten times; the others name it, go on with seven, and let an eighth in.
func TestElasticProcesses(t *testing.T) {
	for _, c := range []struct {
		transport backend.Transport
		apart     bool
		rounds    int
	}{{backend.SHM, false, 10}, {backend.TCP, true, 10}} {
		t.Run(fmt.Sprintf("%s apart %v", c.transport, c.apart), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*patience)
			defer cancel()
			const n = 8
			at := p2ptest.FreeAddr(t)
			if c.apart {
				network, err := backend.OpenSockets(backend.Sockets{})
				check(t, err)
				h, err := world.OpenHost(ctx, world.Config{Size: n, Master: at.String(), Network: network})
				check(t, err)
				var hosting errgroup.Group
				hosting.Go(func() error { return h.Run(ctx) })
				defer func() { checkSoft(t, hosting.Wait()) }()
				defer cancel()
			}
			e := &elastic{t: t}
			for r := range n {
				e.ranks = append(e.ranks, e.start(ctx, r, n, at, c.transport))
			}
			e.wantEpoch(1, n)
			rng := rand.New(rand.NewPCG(1, uint64(len(c.transport))))
			for i := range c.rounds {
				victim := i % 2 * rng.IntN(n) // every other time rank 0
				e.kill(victim)
				e.wantEpoch(2*i+2, n-1)
				e.ranks = append(e.ranks, e.start(ctx, victim, n, at, c.transport))
				e.wantEpoch(2*i+3, n)
			}
			e.end()
		})
	}
}

// Two are killed within moments, so that one dies while the others rebuild, and two come at the same time; the rendezvous may be among the dead.
func TestElasticProcessesDieTogether(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*patience)
	defer cancel()
	const n = 8
	at := p2ptest.FreeAddr(t)
	e := &elastic{t: t}
	for r := range n {
		e.ranks = append(e.ranks, e.start(ctx, r, n, at, backend.SHM))
	}
	e.await(n)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 4 {
		for i := range 2 {
			victim := rng.IntN(2) * rng.IntN(len(e.ranks)) // often rank 0
			if i == 1 {
				wait(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
			}
			dead := e.ranks[victim]
			check(t, dead.cmd.Process.Kill())
			_ = dead.cmd.Wait() // it was killed
			e.ranks = slices.Delete(e.ranks, victim, victim+1)
		}
		e.await(n - 2)
		for range 2 {
			e.ranks = append(e.ranks, e.start(ctx, rng.IntN(n), n, at, backend.SHM))
		}
		e.await(n)
	}
	e.end()
}

// await reads what all say until all are in one epoch of size ranks.
func (e *elastic) await(size int) {
	e.t.Helper()
	epochs := make([]int, len(e.ranks))
	for highest := 1; slices.ContainsFunc(epochs, func(n int) bool { return n < highest }); {
		for i, c := range e.ranks {
			for epochs[i] < highest {
				var rank, of, joined, files int
				line := c.line(e.t)
				if strings.HasPrefix(line, "verdict") {
					continue
				}
				if _, err := fmt.Sscanf(line, "epoch %d rank %d of %d joined %d files %d", &epochs[i], &rank, &of, &joined, &files); err != nil {
					e.t.Fatalf("a rank says %q", line)
				}
				if of != size {
					epochs[i] = 0
				}
				highest = max(highest, epochs[i])
			}
		}
	}
}

// elastic is the processes of a world that changes, by rank.
type elastic struct {
	t     *testing.T
	ranks []*performer
}

type performer struct {
	*child
	input io.Closer
	files int // open, in its first epoch
}

func (e *elastic) start(ctx context.Context, rank, size int, at *net.TCPAddr, transport backend.Transport) *performer {
	e.t.Helper()
	cmd := rankCommand(ctx, e.t, rank, size, at, transport)
	cmd.Env = append(cmd.Env, elasticVar+"=1")
	input, err := cmd.StdinPipe()
	check(e.t, err)
	return &performer{child: begin(e.t, cmd), input: input}
}

// kill ends a rank, and all others say that it was that.
func (e *elastic) kill(victim int) {
	e.t.Helper()
	dead := e.ranks[victim]
	killed := time.Now()
	check(e.t, dead.cmd.Process.Kill())
	e.ranks = slices.Delete(e.ranks, victim, victim+1)
	for r, c := range e.ranks {
		line := c.line(e.t)
		if want := fmt.Sprintf("rank %d (process %d) failed", victim, dead.cmd.Process.Pid); !strings.HasPrefix(line, fmt.Sprintf("verdict %d: ", victim)) || !strings.Contains(line, want) {
			e.t.Errorf("who is rank %d now says %q, want that %s", r, line, want)
		}
	}
	e.t.Logf("rank %d was named by all within %v", victim, time.Since(killed).Round(time.Millisecond))
	_ = dead.cmd.Wait() // it was killed
}

func (e *elastic) wantEpoch(epoch, size int) {
	e.t.Helper()
	for r, c := range e.ranks {
		line := c.line(e.t)
		var joined, files int
		if _, err := fmt.Sscanf(line, fmt.Sprintf("epoch %d rank %d of %d joined %%d files %%d", epoch, r, size), &joined, &files); err != nil {
			e.t.Fatalf("rank %d of %d of epoch %d says %q", r, size, epoch, line)
		}
		if c.files == 0 {
			c.files = files
		}
		if files > c.files+20 { // one that becomes the rendezvous has some more
			e.t.Errorf("rank %d of epoch %d has %d open files, in its first epoch it had %d", r, epoch, files, c.files)
		}
	}
}

func (e *elastic) end() {
	for _, c := range e.ranks {
		checkSoft(e.t, c.input.Close())
	}
	for _, c := range e.ranks {
		checkSoft(e.t, c.cmd.Wait())
	}
}
