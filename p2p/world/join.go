package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"hcclps/p2p"
)

// Rests between two tries to reach the rendezvous or another rank.
const (
	minRest = 20 * time.Millisecond
	maxRest = 500 * time.Millisecond
)

// member is what all ranks know of one.
type member struct {
	address string // where it listens for pairs
	host    string
	info    string
}

// roster is a world that is formed: its number, who is in it by rank, and where it met.
type roster struct {
	id      uint64
	epoch   uint32
	members []member
	rank    int    // of this process
	center  int    // the rank in whose process the center is; negative: none
	machine string // that of the center
	info    string // of the center
}

// identity is what a process is through all epochs.
type identity struct {
	process uint64 // drawn at random
	born    uint32 // epoch in which it came in; 0: not yet
	number  uint32 // its rank then
}

// joiner is a process on its way into an epoch.
type joiner struct {
	cfg  *Config
	self identity
	past *roster // its last epoch; nil: none
	dead int     // the rank of that it holds for dead; negative: none
	lost bool    // the rendezvous of that is gone

	link      uplink // nil: not yet
	center    *center
	local     string       // this side's address to the rendezvous
	ln        net.Listener // of pairs
	table     roster
	missing   string // what the rendezvous said last
	unreached uint64 // the number of a note by which it was not reached
	hosting   error  // why it could not be here
}

// join goes on until this process is in an epoch, or is not welcome, or ctx ends.
func (j *joiner) join(ctx context.Context) error {
	var last error // of the last try
	for pause := minRest; ; pause = min(2*pause, maxRest) {
		err := j.try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && !errors.Is(err, p2p.ErrRefused) {
			if last == nil || err.Error() != last.Error() {
				j.cfg.Logger.Debug("cannot join yet", "master", j.cfg.Master, "err", err)
			}
			last = err
			rest(ctx, pause/2+rand.N(pause/2))
		}
		if ctx.Err() != nil || errors.Is(err, p2p.ErrRefused) {
			j.close()
			return j.why(ctx, err, last)
		}
	}
}

// why is the error of a process that could not join: what it was told, or what it knew when its time was over.
func (j *joiner) why(ctx context.Context, err, last error) error {
	switch {
	case errors.Is(err, p2p.ErrRefused), j.center != nil:
		return err
	case j.missing != "":
		return fmt.Errorf("%w: the rendezvous says: %s", context.Cause(ctx), j.missing)
	case last != nil:
		return fmt.Errorf("%w: the rendezvous cannot be reached: %w", context.Cause(ctx), errors.Join(last, j.hosting))
	}
	return fmt.Errorf("%w: the rendezvous did not answer", context.Cause(ctx))
}

// close lets go of everything.
func (j *joiner) close() {
	if j.link != nil {
		j.link.close()
	}
	if j.center != nil {
		j.center.close()
	}
	if j.ln != nil {
		_ = j.ln.Close()
	}
}

// try reaches the rendezvous, if it has not, and stays there until the epoch is decided. An error is final if it wraps p2p.ErrRefused.
func (j *joiner) try(ctx context.Context) error {
	j.missing, j.table = "", roster{}
	if j.link == nil {
		if err := j.reach(ctx); err != nil {
			return err
		}
	}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx)) // the others are told before it ends
	var serving sync.WaitGroup
	if j.center != nil {
		serving.Go(func() { j.center.run(inner) })
	}
	err := j.link.run(ctx, j.told)
	if err == nil && j.table.epoch == 0 { // stopped before the end
		err = j.giveUp(ctx)
	}
	stop()
	serving.Wait()
	switch {
	case errors.Is(err, errMoved):
		j.dissolved()
	case err != nil && j.center == nil:
		j.link.close()
		j.link, j.lost = nil, true
	}
	return err
}

// giveUp ends the waiting. What the center here decided at that moment counts.
func (j *joiner) giveUp(ctx context.Context) error {
	cause := context.Cause(ctx)
	if j.center == nil {
		return cause
	}
	if err := j.center.abandon(cause); err != nil {
		return err
	}
	enough, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	if err := j.link.run(enough, j.told); err != nil {
		return err
	}
	if j.table.epoch == 0 {
		return fmt.Errorf("%w: %s", cause, j.missing)
	}
	return nil
}

// reach makes this process the rendezvous, if that is its part and there is none, or dials it.
func (j *joiner) reach(ctx context.Context) error {
	if j.cfg.Master == "" {
		return j.find(ctx)
	}
	if j.mayHost() {
		d, err := j.cfg.door(ctx)
		if err == nil {
			return j.host(ctx, d, nil)
		}
		j.hosting = err
	}
	return j.dial(ctx, j.cfg.Master)
}

// dial connects to the rendezvous.
func (j *joiner) dial(ctx context.Context, master string) error {
	dialling, cancel := context.WithTimeoutCause(ctx, helloTime, fmt.Errorf("%w: not reached within %v", p2p.ErrPeer, helloTime))
	defer cancel()
	conn, err := j.cfg.Network.Dial(dialling, master)
	if err != nil {
		return err
	}
	if err = j.introduce(ctx, conn); err != nil {
		_ = conn.Close()
		return err
	}
	j.link = newLine(conn, j.cfg)
	return nil
}

// mayHost says whether the rendezvous may be here: the first is at rank 0, a later one where the last was, since there its address is.
func (j *joiner) mayHost() bool {
	if j.cfg.Guest {
		return false
	}
	if j.past == nil {
		return j.cfg.Rank == 0
	}
	return j.past.machine == j.cfg.Host
}

// door opens the rendezvous.
func (c *Config) door(ctx context.Context) (*door, error) {
	at := c.Master
	if (c.Rank == 0 || c.Master == "") && c.Listen != "" {
		at = c.Listen
	}
	ln, err := c.Network.Listen(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("listen for other ranks: %w", err)
	}
	return openDoor(c, ln), nil
}

// host makes this process the rendezvous.
func (j *joiner) host(ctx context.Context, d *door, cl *claim) error {
	j.local = hostOf(d.ln.Addr().String())
	h, err := j.hello(ctx)
	if err != nil {
		d.close()
		return err
	}
	j.center = newCenter(j.cfg, d)
	j.center.claim = cl
	down := newQueue()
	s, refusal := j.center.admit(h, down)
	if refusal != "" {
		return fmt.Errorf("%w: %s", p2p.ErrRefused, refusal)
	}
	j.link = &own{center: j.center, seat: s, down: down}
	return nil
}

// introduce says who this process is, and waits to be let in.
func (j *joiner) introduce(ctx context.Context, conn net.Conn) error {
	j.local = hostOf(conn.LocalAddr().String())
	if conn.LocalAddr().Network() == "unix" { // so the rendezvous is on this host
		j.local = hostOf(j.cfg.Master)
	}
	h, err := j.hello(ctx)
	if err != nil {
		return err
	}
	if err := sendHello(ctx, conn, h); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helloTime, fmt.Errorf("%w: silent for %v", p2p.ErrPeer, helloTime))
	defer cancel()
	return readAnswer(ctx, conn)
}

// hello is what this process says of itself. It listens for pairs from then on.
func (j *joiner) hello(ctx context.Context) (hello, error) {
	if j.ln == nil {
		if err := j.listen(ctx); err != nil {
			return hello{}, fmt.Errorf("%w: %w", p2p.ErrRefused, err)
		}
	}
	h := hello{
		purpose: joining, job: j.cfg.Job, from: j.cfg.Rank, size: j.cfg.Size, id: j.self.process,
		address: j.address(), host: j.cfg.Host, info: j.cfg.Info, name: j.cfg.Name, terms: j.cfg.terms(),
	}
	if j.past != nil {
		h.from, h.size, h.last, h.epoch = j.past.rank, len(j.past.members), j.past.id, j.past.epoch
		h.born, h.number, h.dead = j.self.born, j.self.number, uint32(j.dead+1)
		if j.lost {
			h.lost = uint32(j.past.center + 1)
		}
	}
	return h, nil
}

// listen opens where ranks below this one will come to make pairs.
func (j *joiner) listen(ctx context.Context) error {
	at := j.cfg.Listen
	if at == "" || j.cfg.Rank == 0 && j.cfg.Master != "" && !j.cfg.Guest { // rank 0's is that of the rendezvous
		at = net.JoinHostPort(j.local, "0")
	}
	ln, err := j.cfg.Network.Listen(ctx, at)
	if err != nil {
		return fmt.Errorf("listen for other ranks: %w", err)
	}
	j.ln = ln
	return nil
}

// address is where others dial this process.
func (j *joiner) address() string {
	if j.cfg.Advertise != "" && (j.cfg.Rank != 0 || j.cfg.Guest) && j.cfg.Master != "" {
		return j.cfg.Advertise
	}
	return reachable(j.ln.Addr().String(), j.local)
}

// hostOf is the host of an address; that of a socket in the file system is this one.
func hostOf(addr string) string {
	if strings.HasPrefix(addr, "unix:") {
		return "127.0.0.1"
	}
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// reachable is the address of a listener as others can dial it: one that listens on all interfaces is reached by that of local.
func reachable(listener, local string) string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return listener
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return listener
	}
	return net.JoinHostPort(local, port)
}

// told acts on a frame of the rendezvous. What is left of the last epoch means nothing any more.
func (j *joiner) told(f frame) error {
	switch f.kind {
	case kindMissing:
		j.missing = f.text
		return nil
	case kindAbandon:
		return fmt.Errorf("%w: %s", p2p.ErrRefused, f.text)
	case kindMember:
		if f.rank != len(j.table.members) {
			break
		}
		j.table.members = append(j.table.members, member{address: f.address, host: f.host, info: f.text})
		return nil
	case kindReady:
		if f.epoch == 0 || f.rank >= len(j.table.members) || f.center > len(j.table.members) {
			break
		}
		j.table.id, j.table.epoch, j.table.rank, j.table.center = f.query, f.epoch, f.rank, f.center-1
		j.table.machine, j.table.info = f.host, f.text
		if j.self.born == 0 {
			j.self.born, j.self.number = f.epoch, uint32(f.rank)
		}
		return errEnough
	case kindMoved:
		return errMoved
	case kindFailed, kindLeft, kindPosition, kindAnswered, kindWaiting, kindAsk:
		if j.past != nil {
			return nil
		}
	default:
	}
	return fmt.Errorf("%w: frame of kind %d from the rendezvous while the world forms", p2p.ErrMalformed, f.kind)
}
