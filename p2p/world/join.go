package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"hcclps/p2p"
)

// Rests between two tries to reach another rank.
const (
	minRest = 20 * time.Millisecond
	maxRest = 500 * time.Millisecond
)

// joiner is a rank above 0 in Open.
type joiner struct {
	cfg     *Config
	process uint64

	ln      net.Listener // of pairs; opened when it is known by which interface rank 0 is reached
	table   roster
	missing string // what rank 0 said last
}

// join is what ranks above 0 do in Open: they dial rank 0 until it lets them in and the world is whole.
func join(ctx context.Context, cfg *Config) (*joiner, *line, error) {
	j := &joiner{cfg: cfg, process: rand.Uint64()}
	var last error // of the last try
	for pause := minRest; ; pause = min(2*pause, maxRest) {
		l, err := j.try(ctx)
		if err == nil {
			return j, l, nil
		}
		if ctx.Err() == nil && !errors.Is(err, p2p.ErrRefused) {
			if last == nil || err.Error() != last.Error() {
				cfg.Logger.Debug("cannot join yet", "master", cfg.Master, "err", err)
			}
			last = err
			rest(ctx, pause/2+rand.N(pause/2))
		}
		if ctx.Err() != nil || errors.Is(err, p2p.ErrRefused) {
			j.close()
			return nil, nil, j.why(ctx, err, last)
		}
	}
}

// why is the error of a rank that could not join: what it was told, or what it knew when its time was over.
func (j *joiner) why(ctx context.Context, err, last error) error {
	switch {
	case errors.Is(err, p2p.ErrRefused):
		return err
	case j.missing != "":
		return fmt.Errorf("%w: rank 0 says that %s", context.Cause(ctx), j.missing)
	case last != nil:
		return fmt.Errorf("%w: rank 0 cannot be reached: %w", context.Cause(ctx), last)
	}
	return fmt.Errorf("%w: rank 0 did not answer", context.Cause(ctx))
}

func (j *joiner) close() {
	if j.ln != nil {
		_ = j.ln.Close()
	}
}

// try dials rank 0 once and stays until the world is whole. An error is final if it wraps p2p.ErrRefused.
func (j *joiner) try(ctx context.Context) (*line, error) {
	j.missing = ""
	conn, err := j.cfg.Network.Dial(ctx, j.cfg.Master)
	if err != nil {
		return nil, err
	}
	l := newLine(conn, j.cfg)
	if err = j.introduce(ctx, conn); err == nil {
		j.table = roster{members: make([]member, j.cfg.Size)}
		err = l.run(ctx, j.told)
	}
	if err == nil && j.table.epoch == 0 {
		err = context.Cause(ctx) // stopped before the end
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, nil
}

// introduce says who this rank is, and waits to be let in.
func (j *joiner) introduce(ctx context.Context, conn net.Conn) error {
	if j.ln == nil {
		if err := j.listen(ctx, conn); err != nil {
			return fmt.Errorf("%w: %w", p2p.ErrRefused, err)
		}
	}
	address := j.cfg.Advertise
	if address == "" {
		address = reachable(j.ln.Addr().String(), conn.LocalAddr())
	}
	h := hello{
		purpose: joining, job: j.cfg.Job, from: j.cfg.Rank, size: j.cfg.Size, id: j.process,
		address: address, host: j.cfg.Host, info: j.cfg.Info,
	}
	if err := sendHello(ctx, conn, h); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helloTime, fmt.Errorf("%w: silent for %v", p2p.ErrPeer, helloTime))
	defer cancel()
	return readAnswer(ctx, conn)
}

// listen opens where ranks below this one will come to make pairs.
func (j *joiner) listen(ctx context.Context, conn net.Conn) error {
	at := j.cfg.Listen
	if at == "" {
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		if conn.LocalAddr().Network() == "unix" { // so rank 0 is on this host
			host, _, err = net.SplitHostPort(j.cfg.Master)
		}
		if err != nil {
			return fmt.Errorf("find out where to listen: %w: say it (Listen)", err)
		}
		at = net.JoinHostPort(host, "0")
	}
	ln, err := j.cfg.Network.Listen(ctx, at)
	if err != nil {
		return fmt.Errorf("listen for other ranks: %w", err)
	}
	j.ln = ln
	return nil
}

// reachable is the address of a listener as others can dial it: one that listens on all interfaces is reached by that of local.
func reachable(listener string, local net.Addr) string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return listener
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return listener
	}
	mine, _, err := net.SplitHostPort(local.String())
	if err != nil {
		return listener
	}
	return net.JoinHostPort(mine, port)
}

// told acts on a frame of rank 0.
func (j *joiner) told(f frame) error {
	switch f.kind {
	case kindMissing:
		j.missing = f.text
		return nil
	case kindAbandon:
		return fmt.Errorf("%w: rank 0 gave up: %s", p2p.ErrRefused, f.text)
	case kindMember:
		if f.rank >= j.cfg.Size {
			break
		}
		j.table.members[f.rank] = member{address: f.address, host: f.host, info: f.text}
		return nil
	case kindReady:
		if f.epoch == 0 {
			break
		}
		j.table.id, j.table.epoch = f.query, f.epoch
		return errEnough
	default:
	}
	return fmt.Errorf("%w: frame of kind %d from rank 0 while the world forms", p2p.ErrMalformed, f.kind)
}
