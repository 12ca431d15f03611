package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p"
)

// Defaults of Config.
const (
	DefaultPiece    = 256 << 10
	DefaultWatchdog = 60 * time.Second
)

// Config says how a Group works. All but Comm, Ranks, Control, Open and Logger must be equal on all ranks.
type Config struct {
	// Comm connects the members. The Group has it for itself and closes it; who made it owns its Run.
	Comm p2p.Comm
	// Ranks are the numbers by which errors name the members, by rank of Comm; nil: those of Comm.
	Ranks []int
	// Hosts has a number for each rank, equal for ranks of one host or of any subgroup that is closer together; nil: one level.
	Hosts []int
	// Apart are ranks of the Comm whose links are much slower than those of the others: an AllReduce that is not tiny does what it can for them, see Mesh.
	// At least one rank is none of them.
	Apart []int
	// Epoch is the epoch of membership, which tells this group from an earlier one of the same ranks.
	Epoch uint64
	// Algorithms pins what operations are done by; see ParseAlgorithms.
	Algorithms Algorithms
	// RankOrder folds contributions in ascending order of ranks in every algorithm, so that all give the same bits.
	RankOrder bool
	// Piece is the most bytes that a pipelined message has, a multiple of 64; 0: DefaultPiece.
	Piece int
	// Transport is what the defaults of Inside and Across are for: "shm", "inproc", "tcp" or "hccl".
	Transport string
	// Inside and Across are measured constants between ranks of one host and between hosts; zero: those of Measured, else the transport's defaults.
	Inside, Across Link
	// Measured is what the links are; nil: nobody has measured.
	Measured *Calibration
	// Watchdog is how long an operation may wait without any message coming or going, one of which may be as large as the operation where
	// it is not cut into pieces; 0: DefaultWatchdog.
	Watchdog time.Duration
	// Shared is memory that the ranks of this host have mapped: those with this rank's number in Hosts, or all. The group needs one of its own, and does
	// not close it. nil: none.
	Shared Shared
	// Control tells ranks of each other's failures; nil: each finds out for itself, by the end of a peer's Comm or by Watchdog.
	Control Control
	// Scope makes the Control of a sub-group, by a name that its members have alike: then a failure in it is theirs alone. nil: it has Control.
	Scope func(name string) Control
	// Open makes a Comm for a sub-group, from ranks of this group in the order of their new numbers. All of them call it. nil: no sub-groups.
	Open func(ctx context.Context, ranks []int) (p2p.Comm, error)
	// Logger gets the choices of algorithms, at debug, and the end; nil: nobody.
	Logger *slog.Logger
	// Trace gets a span of each operation, of its time in the queue, and of whoever waits for it; nil: nobody.
	Trace *trace.Recorder
}

// Group is the members of one communicator: one epoch of a fixed set of ranks. Its operations may be posted by any number of goroutines, but
// in the same order on every rank.
type Group struct {
	cfg    Config
	choose chooser
	group  uint32 // digest of the members
	plan   uint32 // digest of what else must agree, for an operation without a tag
	all    team

	progress atomic.Uint64 // messages that have ended
	wake     chan struct{} // something was posted, or the group was closed, or who carried an operation out has left

	mu      sync.Mutex
	seq     uint64
	queue   []*Work
	first   [4]*Work // where the queue begins again when it was empty
	current *Work    // under way
	last    Call     // the last that began; Seq 0: none
	closed  bool
	dead    error
	records recorder
	tracks  tracks
	driver  driver

	subs     map[string]int   // how many there were, by name
	reducers map[kind]reducer // used by who carries an operation out
}

// kind is what a reducer is for.
type kind struct {
	t p2p.DType
	r Reduction
}

// New makes a Group. It starts nothing: operations wait for Run.
func New(cfg Config) (*Group, error) {
	if cfg.Comm == nil {
		return nil, errors.New("make group: no comm")
	}
	size := cfg.Comm.Size()
	if cfg.Ranks == nil {
		cfg.Ranks = make([]int, size)
		for i := range cfg.Ranks {
			cfg.Ranks[i] = i
		}
	}
	if cfg.Piece == 0 {
		cfg.Piece = DefaultPiece
	}
	if cfg.Watchdog == 0 {
		cfg.Watchdog = DefaultWatchdog
	}
	if cfg.Inside == (Link{}) && cfg.Across == (Link{}) && cfg.Measured != nil && cfg.Measured.Ranks == size {
		cfg.Inside, cfg.Across = cfg.Measured.Links(cfg.Hosts)
	}
	if cfg.Inside == (Link{}) {
		cfg.Inside = defaultLink(cfg.Transport)
	}
	if cfg.Across == (Link{}) {
		cfg.Across = cfg.Inside
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.validate(size); err != nil {
		return nil, fmt.Errorf("make group of %d ranks: %w", size, err)
	}
	g := &Group{cfg: cfg, group: digest(cfg.Ranks), wake: make(chan struct{}, 1), reducers: make(map[kind]reducer), tracks: newTracks(cfg.Trace)}
	g.plan = g.planOf(0)
	g.choose = chooser{
		pinned: cfg.Algorithms, inside: cfg.Inside, across: cfg.Across,
		levels: newLevels(cfg.Hosts), ranks: size, ordered: cfg.RankOrder,
		shared: cfg.Shared != nil, together: cfg.Shared != nil && cfg.together(), apart: len(cfg.Apart) > 0,
	}
	g.all = newExchange(cfg.Comm, func(r int) int { return cfg.Ranks[r] }, &g.progress).all()
	neighbours, me := cfg.neighbours()
	var err error
	if g.all.shared, err = newSharing(cfg.Shared, neighbours, me); err != nil {
		return nil, fmt.Errorf("make group of %d ranks: %w", size, err)
	}
	return g, nil
}

// neighbours are the ranks of this rank's host, and its place among them.
func (c *Config) neighbours() (ranks []int, me int) {
	for r := range c.Ranks {
		if r == c.Comm.Rank() {
			me = len(ranks)
		}
		if c.Hosts == nil || c.Hosts[r] == c.Hosts[c.Comm.Rank()] {
			ranks = append(ranks, r)
		}
	}
	return ranks, me
}

// together says whether all ranks are on one host.
func (c *Config) together() bool {
	return !slices.ContainsFunc(c.Hosts, func(h int) bool { return h != c.Hosts[0] })
}

// validate tells all faults of a Config that has its defaults.
func (c *Config) validate(size int) error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(len(c.Ranks) != size, "%d names of ranks", len(c.Ranks))
	sorted := slices.Sorted(slices.Values(c.Ranks))
	fault(len(slices.Compact(sorted)) != len(c.Ranks), "a rank is named twice in %v", c.Ranks)
	fault(c.Hosts != nil && len(c.Hosts) != size, "%d numbers of hosts", len(c.Hosts))
	fault(c.Measured != nil && c.Measured.Ranks != size, "links of other ranks were measured")
	for i, r := range c.Apart {
		fault(r < 0 || r >= size || slices.Contains(c.Apart[:i], r) || len(c.Apart) >= size, "ranks apart %v are not some of %d", c.Apart, size)
	}
	fault(c.Piece < 64 || c.Piece%64 != 0, "piece of %d bytes, want a multiple of 64", c.Piece)
	fault(c.Watchdog < time.Millisecond, "watchdog of %v, want at least 1ms", c.Watchdog)
	for _, l := range []Link{c.Inside, c.Across} {
		fault(l.Alpha < 0 || l.Post < 0 || !(l.Bandwidth > 0) || !(l.Reduce > 0), "link %+v, want positive bandwidth and reduce", l)
	}
	faults = append(faults, c.Algorithms.validate())
	for op, choice := range c.Algorithms {
		fault(choice.Level0 == SHM && c.Shared == nil, "%v is pinned to %v, and the ranks of a host share no memory", op, choice)
		fault(choice.Level1 == SHM && (c.Shared == nil || len(c.Hosts) == size && !c.together()), "%v is pinned to %v, and the ranks do not all share memory", op, choice)
	}
	return errors.Join(faults...)
}

// digest is a checksum of numbers.
func digest(numbers []int) uint32 {
	b := make([]byte, 0, 8*len(numbers))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return crc32.Checksum(b, castagnoli)
}

// planOf is the digest for an operation with a tag.
func (g *Group) planOf(tag uint32) uint32 {
	numbers := append([]int{g.cfg.Piece, int(tag)}, g.cfg.Hosts...)
	if len(g.cfg.Apart) > 0 {
		numbers = append(append(numbers, -1), slices.Sorted(slices.Values(g.cfg.Apart))...)
	}
	return digest(numbers)
}

// reducer is that for a type and a reduction, kept for the next time.
func (g *Group) reducer(t p2p.DType, r Reduction) reducer {
	k := kind{t, r}
	red, ok := g.reducers[k]
	if !ok {
		red = newReducer(t, r)
		g.reducers[k] = red
	}
	return red
}

// Rank is this side's number in the group.
func (g *Group) Rank() int { return g.cfg.Comm.Rank() }

// Size is the number of members.
func (g *Group) Size() int { return g.cfg.Comm.Size() }

// Sub makes a group of some members, in the order of their new numbers, with a Comm of its own: it works beside this one, and has no Shared. Every
// one of them calls Sub with the same ranks; this rank must be one. ctx bounds the making of the Comm. The caller runs the new group.
func (g *Group) Sub(ctx context.Context, ranks []int) (*Group, error) {
	sub, err := g.sub(ctx, ranks, func(c *Config) {
		if g.cfg.Scope != nil {
			c.Control = g.cfg.Scope(g.scope(c.Ranks))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("make sub-group %v at rank %d: %w", ranks, g.Rank(), err)
	}
	return sub, nil
}

// scope names the next sub-group of some ranks.
func (g *Group) scope(ranks []int) string {
	name := fmt.Sprintf("group %08x of %d in %08x", digest(ranks), len(ranks), g.group)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.subs == nil {
		g.subs = make(map[string]int)
	}
	g.subs[name]++
	return fmt.Sprintf("%s, %d", name, g.subs[name])
}

// sub makes a group of some members whose Config change may alter.
func (g *Group) sub(ctx context.Context, ranks []int, change func(*Config)) (*Group, error) {
	if g.cfg.Open == nil {
		return nil, errors.New("the group has no way to open a comm for it")
	}
	sub := g.cfg
	sub.Ranks, sub.Hosts, sub.Apart, sub.Open, sub.Shared = nil, nil, nil, nil, nil
	sub.Algorithms = g.choose.messages().pinned
	for i, r := range ranks {
		if r < 0 || r >= g.Size() {
			return nil, fmt.Errorf("no rank %d among %d: %w", r, g.Size(), p2p.ErrRank)
		}
		sub.Ranks = append(sub.Ranks, g.cfg.Ranks[r])
		if g.cfg.Hosts != nil {
			sub.Hosts = append(sub.Hosts, g.cfg.Hosts[r])
		}
		if slices.Contains(g.cfg.Apart, r) && len(sub.Apart) < len(ranks)-1 {
			sub.Apart = append(sub.Apart, i)
		}
	}
	if c := g.cfg.Measured; c != nil {
		sub.Measured = c.Of(ranks)
	}
	change(&sub)
	me := slices.Index(ranks, g.Rank())
	if me < 0 {
		return nil, fmt.Errorf("this rank is not in it: %w", p2p.ErrRank)
	}
	if sorted := slices.Sorted(slices.Values(ranks)); len(slices.Compact(sorted)) != len(ranks) {
		return nil, fmt.Errorf("a rank is in it twice: %w", p2p.ErrRank)
	}
	comm, err := g.cfg.Open(ctx, ranks)
	if err != nil {
		return nil, err
	}
	if comm.Rank() != me || comm.Size() != len(ranks) {
		return nil, errors.Join(fmt.Errorf("the comm is of rank %d of %d", comm.Rank(), comm.Size()), comm.Close())
	}
	sub.Comm = comm
	made, err := New(sub)
	if err != nil {
		return nil, errors.Join(err, comm.Close())
	}
	return made, nil
}

// Close ends the group and its Comm, and may be called more than once. Operations under way fail, and Run returns nil.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.poke()
	return g.cfg.Comm.Close()
}

func (g *Group) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run carries out what is posted, in order, until ctx ends, the group is closed, or an operation fails. It returns nil after Close, else the
// reason, which is the error of all operations that had not ended. The Comm is closed then. Call it once.
func (g *Group) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { g.watch(ctx, stop) })
	g.mu.Lock()
	g.driver.run = ctx //nolint:fatcontext // not nested: there is one Run
	g.mu.Unlock()
	err := g.loop(ctx)
	stop(err)
	watcher.Wait()
	if s := g.all.shared; s != nil {
		s.Leave()
	}
	g.bury(err)
	if errors.Is(err, errGroupClosed) {
		return nil
	}
	g.cfg.Logger.Warn("group of ranks has failed", "rank", g.cfg.Ranks[g.Rank()], "epoch", g.cfg.Epoch, "error", err)
	return err
}

// loop takes one operation after the other. It returns why it ended.
func (g *Group) loop(ctx context.Context) error {
	for {
		w, again, err := g.next(ctx)
		if err != nil {
			return g.failure(ctx, err)
		}
		if !again {
			g.all.begin(ctx, w.call)
		}
		if err := g.carry(w); err != nil {
			return g.failure(ctx, err)
		}
		g.finish(w, nil)
	}
}

// next waits for an operation and makes it the current one; again: it was begun by who waits for it.
func (g *Group) next(ctx context.Context) (w *Work, again bool, err error) {
	d := &g.driver
	var tick <-chan time.Time
	for {
		g.mu.Lock()
		d.ending = d.busy && (g.closed || ctx.Err() != nil)
		switch {
		case d.busy: // nobody else may touch what it works with
		case d.broken != nil:
			g.mu.Unlock()
			return nil, false, d.broken
		case g.closed:
			g.mu.Unlock()
			return nil, false, errGroupClosed
		case ctx.Err() != nil:
			g.mu.Unlock()
			return nil, false, context.Cause(ctx)
		case d.handed:
			d.handed = false
			w = g.current
			g.mu.Unlock()
			return w, true, nil
		case len(g.queue) > 0 && !d.hot():
			w = g.take()
			g.mu.Unlock()
			return w, false, nil
		}
		hot, ended := d.hot(), ctx.Done()
		if d.ending {
			ended = nil
		}
		g.mu.Unlock()
		if tick = nil; hot {
			tick = time.After(coolAfter)
		}
		select {
		case <-g.wake:
		case <-ended:
		case <-tick:
			g.mu.Lock()
			d.look(g.queue)
			g.mu.Unlock()
		}
	}
}

// take makes the first operation of the queue the current one; g.mu is held.
func (g *Group) take() *Work {
	w := g.queue[0]
	started := w.posted
	if !w.first {
		started = time.Now()
	}
	if g.queue = g.queue[1:]; len(g.queue) == 0 {
		g.queue = g.first[:0]
	}
	g.current, g.last = w, w.call
	g.records.begin(w, started)
	return w
}

// carry does one operation that was begun.
func (g *Group) carry(w *Work) error {
	if c := w.call.Algorithm; g.all.shared != nil && c.Level0 != SHM && c.Level1 != SHM {
		if err := g.all.announce(nil, [2]int{}); err != nil { // so that a neighbour that calls something else sees it
			return err
		}
	}
	if err := w.run(g.all); err != nil {
		return err
	}
	if g.all.shared != nil { // not all ways through an operation of two levels share memory
		if err := g.all.announce(nil, [2]int{}); err != nil {
			return err
		}
	}
	return g.all.flush()
}

// finish ends an operation that has succeeded or failed.
func (g *Group) finish(w *Work, err error) {
	g.mu.Lock()
	if r := g.records.end(w, err); r != nil {
		g.tracks.record(r, g.Rank(), g.Size())
	}
	wake := false
	if g.current == w {
		g.current = nil
		wake = g.driver.busy && (g.driver.ending || len(g.queue) > 0)
		g.driver.busy = false
	}
	g.mu.Unlock()
	if wake {
		g.poke()
	}
	g.progress.Add(1)
	if w.after != nil {
		w.after(err)
	}
	w.end(err)
}

// bury makes the group dead: the current operation and all that wait fail with err.
func (g *Group) bury(err error) {
	g.mu.Lock()
	g.dead = err
	left := g.queue
	g.queue = nil
	if g.current != nil {
		left = append([]*Work{g.current}, left...)
	}
	g.mu.Unlock()
	for _, w := range left {
		g.finish(w, fmt.Errorf("%v at rank %d: %w", w.call, g.cfg.Ranks[g.Rank()], err))
	}
}

// Recent returns the last operations that have begun, 256 at most, oldest first.
func (g *Group) Recent() []Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.records.list()
}
