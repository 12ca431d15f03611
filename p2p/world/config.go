package world

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"hcclps/p2p"
)

// Network makes connections. Those of p2p/sockets and p2p/inproc will do.
type Network interface {
	// Listen opens addr for peers until the listener is closed.
	Listen(ctx context.Context, addr string) (net.Listener, error)
	// Dial connects to a listener. It gives up when ctx ends.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// PairFunc makes the Comm of two ranks from fresh connections between their processes, the first of one side being the first of the other. The
// lower rank has dialled and is rank 0 of the pair. The function may exchange bytes over them, bounded by ctx. The Comm owns the connections from then
// on; on error they are closed. Bulk.Pair of p2p/backend is one.
type PairFunc func(ctx context.Context, conns []net.Conn, rank int) (p2p.RunningComm, error)

// Config says which rank of which world this process is. [Env] and [Table.Config] fill in the first part.
type Config struct {
	Rank, Size int    // of the first epoch: where a world is under way they mean nothing
	LocalRank  int    // among the ranks of this host; for the user alone
	Master     string // address of the rendezvous, where the world meets: that of rank 0, or of a Host
	Guest      bool   // the rendezvous is a Host's: no rank takes its place, and Listen is where rank 0 too listens for ranks below it
	// Listen is where this rank listens: rank 0 for the others to join, default Master; others for ranks below them, default any port of the
	// interface by which they reach the rendezvous.
	Listen string
	// Advertise is where others dial what Listen opened; "": the listener's own address. It is not used of rank 0.
	Advertise string
	Host      string // names the machine: ranks with the same Host are on one; default host name and boot id

	// Register is how ranks find the rendezvous if Master is empty: it is at one of them then, at Listen with port 0.
	Register Register

	Network Network  // needed if Size > 1
	Pair    PairFunc // needed if Size > 1
	Stripes int      // connections of a pair, default 1
	Job     string   // what the world works at, at most 255 bytes: ranks of different jobs do not make a world
	Info    string   // for people, in errors; default host name and process id
	Name    string   // of this process in the job: a second one of that name is not let in while this one lives; "": nobody minds
	// Terms are what all ranks must have alike, each as "name=value", at most 512 bytes together. A rank that has others is refused by name.
	Terms []string

	Timeout   time.Duration // bound of Open and of Rebuild beside their context, default 2 min
	Gather    time.Duration // default 10 s: so long survivors wait in Rebuild for a rank that is not known to be dead
	Least     int           // default 1: fewer ranks do not make the next epoch
	Heartbeat time.Duration // default 500 ms
	Suspect   time.Duration // default 2 s: nothing heard for so long, and a rank is taken for dead
	Logger    *slog.Logger  // nil = discard
}

// setDefaults fills in what is zero and returns every fault, for a rank or for a rendezvous.
func (c *Config) setDefaults(rank bool) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Size < 1 || c.Size > MaxSize {
		fault("world size %d is not in 1..%d", c.Size, MaxSize)
	}
	if c.Rank < 0 || c.Rank >= max(c.Size, 1) {
		fault("rank %d is not in 0..%d", c.Rank, c.Size-1)
	}
	if c.Size > 1 {
		c.checkMeeting(rank, fault)
	}
	if c.Stripes == 0 {
		c.Stripes = 1
	}
	if c.Stripes < 1 || c.Stripes > maxStripes {
		fault("stripes %d is not in 1..%d", c.Stripes, maxStripes)
	}
	period := func(p *time.Duration, name string, v time.Duration) {
		if *p == 0 {
			*p = v
		}
		if *p < 0 {
			fault("%s %v is below zero", name, *p)
		}
	}
	period(&c.Timeout, "timeout", 2*time.Minute)
	period(&c.Heartbeat, "heartbeat", 500*time.Millisecond)
	period(&c.Suspect, "suspect", 2*time.Second)
	if c.Suspect <= c.Heartbeat {
		fault("suspect %v must be above heartbeat %v", c.Suspect, c.Heartbeat)
	}
	period(&c.Gather, "gather", 10*time.Second)
	if c.Least == 0 {
		c.Least = 1
	}
	if c.Least < 1 || c.Least > MaxSize {
		fault("least %d is not in 1..%d", c.Least, MaxSize)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.describe()
	if n := len(c.terms()); n > maxTerms {
		fault("terms have %d bytes, at most %d", n, maxTerms)
	}
	for _, s := range []string{c.Job, c.Host, c.Advertise, c.Name} {
		if len(s) > maxName {
			fault("%.40q... has %d bytes, a job, host, address or name at most %d", s, len(s), maxName)
		}
	}
	return errors.Join(faults...)
}

// checkMeeting finds what is missing to find the others.
func (c *Config) checkMeeting(rank bool, fault func(format string, args ...any)) {
	if c.Network == nil {
		fault("network is nil")
	}
	if c.Pair == nil && rank {
		fault("pair is nil: give the backend's function")
	}
	if c.Master == "" && c.Register == nil && (rank || c.Listen == "") {
		fault("master is empty: say where the world meets")
	}
	if c.Master == "" && c.Register != nil && c.Listen == "" {
		fault("listen is empty: without a master each rank says by which of its addresses it is reached")
	}
}

// terms is what all ranks must have alike as it is sent.
func (c *Config) terms() string { return strings.Join(c.Terms, "\n") }

// where the world meets, for people.
func (c *Config) where() string {
	if c.Master == "" {
		return "by the register of job " + strconv.Quote(c.Job)
	}
	return "at " + c.Master
}

// describe fills in what tells this process from others.
func (c *Config) describe() {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown host"
	}
	if c.Info == "" {
		c.Info = fmt.Sprintf("%s, process %d", name, os.Getpid())
	}
	if c.Host == "" {
		boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // else the name has to do
		c.Host = strings.TrimSpace(name + " " + string(boot))
		c.Host = c.Host[:min(len(c.Host), maxName)]
	}
}
