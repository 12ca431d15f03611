package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// The reasons of a refusal a caller may branch on with errors.Is.
var (
	ErrFenced    = errors.New("fenced off by a newer session of the same worker")
	ErrExpelled  = errors.New("session unknown or expelled")
	ErrStopped   = errors.New("job stopped")
	ErrNonFinite = errors.New("non-finite gradient")
	ErrPast      = errors.New("shard is past this step")
	ErrLost      = errors.New("shard LOST")
)

// RefusedError is a server's final no: trying again cannot help.
type RefusedError struct {
	Status wire.Status
	Detail string // what, where and what to do
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Status, e.Detail) }

// Is ties a status to its sentinel.
func (e *RefusedError) Is(target error) bool {
	switch e.Status {
	case wire.Fenced:
		return target == ErrFenced
	case wire.Unknown:
		return target == ErrExpelled
	case wire.Stopped:
		return target == ErrStopped
	case wire.NonFinite:
		return target == ErrNonFinite
	case wire.Past:
		return target == ErrPast
	case wire.Lost:
		return target == ErrLost
	default:
		return false
	}
}

// cluster finds the server to talk to: it knows the layout and remembers who
// led each group last.
type cluster struct {
	link     *link.Client
	seeds    []string
	job      string
	deadline time.Duration
	log      *slog.Logger
	layout   layout.Layout // immutable after discover
	owner    string        // of this session: host, pid, when opened; set before any push
	waits    *waits
	counters *counters

	mu      sync.Mutex
	leaders map[uint32]string // group -> address that answered last as leader
}

func newCluster(lc *link.Client, cfg Config, w *waits, n *counters) *cluster {
	return &cluster{
		link: lc, seeds: cfg.Servers, job: cfg.Job, deadline: cfg.Deadline, log: cfg.Logger, waits: w, counters: n,
		leaders: map[uint32]string{},
	}
}

// discover asks the seed addresses for the layout.
func (c *cluster) discover(ctx context.Context) error {
	head, err := wire.Control(wire.KindLayout, struct{}{})
	if err != nil {
		return err
	}
	route := link.Route{
		Op: "find the cluster", Replicas: func() []string { return c.seeds },
		Timeout: 9 * time.Second, PerTry: 3 * time.Second,
	}
	ctx, cancel := context.WithTimeoutCause(ctx, route.Timeout, fmt.Errorf("no server has answered within %v: %w: start ps-server there, or name others (Servers, --servers)", route.Timeout, context.DeadlineExceeded))
	defer cancel()
	_, err = route.Do(ctx, func(ctx context.Context, addr string) (link.Verdict, error) {
		reply, err := c.link.Call(ctx, addr, link.Call{Head: head})
		for _, stays := range []error{link.ErrWrongCluster, link.ErrVersion, link.ErrRefused, link.ErrUnusable} {
			if errors.Is(err, stays) {
				return link.Fatal(), err
			}
		}
		if err != nil {
			return link.Next(), err
		}
		a, err := wire.DecodeAnswer(reply.Head)
		if err != nil {
			return link.Fatal(), err
		}
		if a.Status != wire.OK {
			return link.Next(), notNow(a)
		}
		var l layout.Layout
		if err := json.Unmarshal(reply.Body, &l); err != nil {
			return link.Fatal(), fmt.Errorf("read layout: %w", err)
		}
		if err := l.Validate(); err != nil {
			return link.Fatal(), err
		}
		c.layout = l
		return link.Done(), nil
	})
	return err
}

// request is one operation on one group, retried until its deadline.
type request struct {
	op    string // for errors and Waiting: "push step 7"
	group uint32
	head  []byte
	again func() []byte // head of a second sending, nil: the same
	body  [][]byte
	prio  link.Priority

	source p2p.Source                    // makes the body, in its place
	sink   func(n int) (p2p.Sink, error) // takes the answer's body
}

// do asks the group's leader, following hints and waiting out elections, until
// the deadline; an answer other than OK comes back as a RefusedError.
func (c *cluster) do(ctx context.Context, r request) (wire.Answer, []byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.deadline)
		defer cancel()
	}
	w := c.waits.begin(r.op, groupName(r.group))
	defer c.waits.end(w)
	route := link.Route{
		Op:       fmt.Sprintf("%s at %s", r.op, groupName(r.group)),
		Replicas: func() []string { return c.layout.Addrs(r.group) },
		First:    c.leader(r.group),
	}
	var answer wire.Answer
	var body []byte
	sent := 0
	addr, err := route.Do(ctx, func(ctx context.Context, addr string) (link.Verdict, error) {
		head := r.head
		if sent++; sent > 1 && r.again != nil {
			head = r.again()
			c.counters.retriedPushes.Add(1)
		}
		w.set(addr)
		reply, err := c.link.Call(ctx, addr, link.Call{Head: head, Body: r.body, Source: r.source, Priority: r.prio, Sink: r.sink})
		if errors.Is(err, link.ErrUnusable) {
			return link.Fatal(), err
		}
		if err != nil {
			return link.Next(), err
		}
		body = reply.Body
		answer, err = wire.DecodeAnswer(reply.Head)
		if err != nil {
			return link.Fatal(), err
		}
		return c.verdict(answer)
	})
	if err != nil {
		c.forget(r.group)
		if errors.Is(err, context.DeadlineExceeded) {
			err = c.explain(ctx, r.group, err)
		}
		return answer, nil, err
	}
	c.answered(r.group, addr, answer)
	return answer, body, nil
}

func (c *cluster) verdict(a wire.Answer) (link.Verdict, error) {
	refused := &RefusedError{a.Status, a.Detail}
	if a.Status == wire.Fenced && c.owner != "" {
		refused.Detail += "; this session: " + c.owner
	}
	switch a.Status {
	case wire.OK:
		return link.Done(), nil
	case wire.NotLeader:
		m, _ := c.layout.Member(a.Leader)
		return link.Hint(m.Addr), notNow(a)
	case wire.Busy, wire.Pending:
		return link.Busy(time.Duration(max(a.After, 5)) * time.Millisecond), notNow(a)
	default:
		return link.Fatal(), refused
	}
}

// notNow is an answer after which another try can help. It is no RefusedError:
// an error at the deadline wraps those of all tries, and must not look final.
func notNow(a wire.Answer) error { return errors.New(a.Reason()) }

// answered remembers whom to ask first next time. A follower that answered a
// pull says who leads: whoever went on asking it would wait for each commit to
// reach it.
func (c *cluster) answered(group uint32, addr string, a wire.Answer) {
	if m, ok := c.layout.Member(a.Leader); ok {
		addr = m.Addr
	}
	c.remember(group, addr)
}

func (c *cluster) leader(group uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaders[group]
}

func (c *cluster) remember(group uint32, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaders[group] = addr
}

func (c *cluster) forget(group uint32) { c.remember(group, "") }

// control asks the meta group; reply is filled from the answer's JSON body
// unless nil.
func (c *cluster) control(ctx context.Context, op string, k wire.Kind, fields, reply any) error {
	head, err := wire.Control(k, fields)
	if err != nil {
		return err
	}
	_, body, err := c.do(ctx, request{op: op, group: layout.MetaGroup, head: head, prio: link.Push})
	if err != nil || reply == nil {
		return err
	}
	if err := json.Unmarshal(body, reply); err != nil {
		return fmt.Errorf("%s: read reply: %w", op, err)
	}
	return nil
}

func groupName(g uint32) string {
	if g == layout.MetaGroup {
		return "the meta group"
	}
	return layout.GroupName(g)
}
