package collective

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	// Native is what the backend does itself between all ranks. It is chosen wherever it can be, for host memory too: so it is for ranks whose bytes pass through
	// their devices anyway. The Group closes it. nil: none.
	Native Native
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

// fill sets what was left open to its default, for size ranks.
func (c *Config) fill(size int) {
	if c.Ranks == nil {
		c.Ranks = make([]int, size)
		for i := range c.Ranks {
			c.Ranks[i] = i
		}
	}
	if c.Piece == 0 {
		c.Piece = DefaultPiece
	}
	if c.Watchdog == 0 {
		c.Watchdog = DefaultWatchdog
	}
	if c.Inside == (Link{}) && c.Across == (Link{}) && c.Measured != nil && c.Measured.Ranks == size {
		c.Inside, c.Across = c.Measured.Links(c.Hosts)
	}
	if c.Inside == (Link{}) {
		c.Inside = defaultLink(c.Transport)
	}
	if c.Across == (Link{}) {
		c.Across = c.Inside
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
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
		fault(choice.Level1 == Natively && c.Native == nil, "%v is pinned to %v, and the backend has none", op, choice)
		fault(choice.Level1 == Natively && c.RankOrder && op.reduces(), "%v is pinned to %v, which does not fold in the order of ranks", op, choice)
		fault(choice.Level1 == SHM && (c.Shared == nil || len(c.Hosts) == size && !c.together()), "%v is pinned to %v, and the ranks do not all share memory", op, choice)
	}
	return errors.Join(faults...)
}
