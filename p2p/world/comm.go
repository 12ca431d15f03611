package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/p2p"
)

// Comm is a p2p.Comm of some ranks of a World, a pair for each other rank. Its goroutines are those of World.Run.
//
// It dies when the World fails, of a RankError, and when one of its transfers fails. A rank that closes its Comm or leaves in good order
// is missed by those only who have something to do with it.
type Comm struct {
	world *World
	name  string
	ranks []int // of the world, by rank of the Comm
	rank  int
	lanes []*lane // by rank of the Comm; nil for itself

	mu    sync.Mutex
	cause error // why it is dead
	dead  chan struct{}
}

// lane is the pair with one other rank.
type lane struct {
	comm *Comm
	peer int // rank of the Comm
	end  int // the other side's rank in the pair
	pair p2p.RunningComm
	why  func(ctx context.Context, err error) error // explain
}

func newLane(c *Comm, peer, end int, pair p2p.RunningComm) *lane {
	l := &lane{comm: c, peer: peer, end: end, pair: pair}
	l.why = l.explain // made once, since every transfer has it
	return l
}

// Rank is this process's number in the Comm.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks of the Comm.
func (c *Comm) Size() int { return len(c.ranks) }

// Ranks are the Comm's ranks in the World, by rank of the Comm.
func (c *Comm) Ranks() []int { return append([]int(nil), c.ranks...) }

// Transport says for people what carries the bytes to and from a rank of the Comm; "" if its pair does not say.
func (c *Comm) Transport(peer int) string {
	if peer < 0 || peer >= len(c.lanes) || c.lanes[peer] == nil {
		return ""
	}
	named, _ := c.lanes[peer].pair.(interface{ Transport() string })
	if named == nil {
		return ""
	}
	return named.Transport()
}

// Isend implements p2p.Comm.
func (c *Comm) Isend(peer int, b p2p.Buffer) *p2p.Request {
	l, err := c.lane(peer)
	if err != nil {
		return p2p.Failed(err)
	}
	return l.pair.Isend(l.end, b).Explained(l.why)
}

// Irecv implements p2p.Comm.
func (c *Comm) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	l, err := c.lane(peer)
	if err != nil {
		return p2p.Failed(err)
	}
	return l.pair.Irecv(l.end, b).Explained(l.why)
}

func (c *Comm) lane(peer int) (*lane, error) {
	if err := p2p.CheckPeer(c, peer); err != nil {
		return nil, err
	}
	select {
	case <-c.dead:
		return nil, p2p.Dead(c.rank, c.why())
	default:
		return c.lanes[peer], nil
	}
}

// Close implements p2p.Comm.
func (c *Comm) Close() error {
	c.die(p2p.ErrClosed)
	return nil
}

func (c *Comm) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// die ends the Comm; the first cause counts. What is pending fails.
func (c *Comm) die(cause error) {
	c.mu.Lock()
	first := c.cause == nil
	if first {
		c.cause = cause
		close(c.dead)
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.world.drop(c)
	for _, l := range c.lanes {
		if l == nil {
			continue
		}
		if err := l.pair.Close(); err != nil {
			c.world.cfg.Logger.Debug("close pair", "comm", c.name, "rank", c.ranks[l.peer], "err", err)
		}
	}
}

// run moves the bytes of a pair.
func (l *lane) run(ctx context.Context) {
	if err := l.pair.Run(ctx); err != nil {
		l.comm.world.cfg.Logger.Debug("pair ended", "comm", l.comm.name, "rank", l.comm.ranks[l.peer], "err", err)
	}
}

// explain says why a transfer failed: of what the Comm died of, or of this pair, and then the Comm dies of it. Where the peer is gone it waits a
// little for a verdict, since the peer may have gone because of another.
func (l *lane) explain(ctx context.Context, err error) error {
	c := l.comm
	rank := c.ranks[l.peer]
	said := fmt.Errorf("comm %q: reach rank %d (%s): %w", c.name, rank, c.world.Info(rank), err)
	if errors.Is(err, p2p.ErrPeer) {
		c.awaitVerdict(ctx)
		if left := c.world.fate.departures(c.world.table.members); left != "" {
			said = fmt.Errorf("%w (%s)", said, left)
		}
	}
	if verdict := c.world.Err(); verdict != nil {
		said = verdict
	}
	c.die(said)
	return c.why()
}

func (c *Comm) awaitVerdict(ctx context.Context) {
	t := time.NewTimer(c.world.cfg.Heartbeat)
	defer t.Stop()
	select {
	case <-c.world.fate.failed:
	case <-c.dead:
	case <-ctx.Done():
	case <-t.C:
	}
}
