// Package reach finds the leaders of a cluster's groups from outside: what an
// operator's command and a restore need, no session and no job.
//
//	c, err := reach.Discover(ctx, client, addrs)
//	err = c.Ask(ctx, wire.KindCheckpoints, wire.CheckpointsRequest{}, &reply)
//
// A request goes on, over changes of leader and busy servers, until there is an
// answer for good or ctx ends; without a deadline it has a minute. All methods may be called concurrently.
package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

const (
	patience     = time.Minute     // of a request without a deadline
	findPatience = 9 * time.Second // for the layout
	findTry      = 3 * time.Second
)

// Cluster is a cluster whose layout is known.
type Cluster struct {
	client *link.Client
	layout layout.Layout
}

// New is a cluster with this layout. The client is the caller's, who runs it.
func New(client *link.Client, l layout.Layout) *Cluster { return &Cluster{client: client, layout: l} }

// Discover asks servers for the layout.
func Discover(ctx context.Context, client *link.Client, addrs []string) (*Cluster, error) {
	head, err := wire.Control(wire.KindLayout, struct{}{})
	if err != nil {
		return nil, err
	}
	c := New(client, layout.Layout{})
	route := link.Route{Op: "find the cluster", Replicas: func() []string { return addrs }, Timeout: findPatience, PerTry: findTry}
	ctx, cancel := context.WithTimeoutCause(ctx, findPatience, fmt.Errorf("no server has answered within %v: %w: start ps-server there, or name others (--servers)", findPatience, context.DeadlineExceeded))
	defer cancel()
	_, err = route.Do(ctx, func(ctx context.Context, addr string) (link.Verdict, error) {
		reply, err := client.Call(ctx, addr, link.Call{Head: head})
		for _, stays := range []error{link.ErrWrongCluster, link.ErrVersion, link.ErrRefused, link.ErrUnusable} {
			if errors.Is(err, stays) {
				return link.Fatal(), err
			}
		}
		if err != nil {
			return link.Next(), err
		}
		a, err := wire.DecodeAnswer(reply.Head)
		switch {
		case err != nil:
			return link.Fatal(), err
		case a.Status != wire.OK:
			return link.Next(), errors.New(a.Reason())
		}
		if err = json.Unmarshal(reply.Body, &c.layout); err == nil {
			err = c.layout.Validate()
		}
		if err != nil {
			return link.Fatal(), fmt.Errorf("read layout: %w", err)
		}
		return link.Done(), nil
	})
	return c, err
}

// Layout is how the cluster was laid out.
func (c *Cluster) Layout() layout.Layout { return c.layout }

// Meta asks the leader of the meta group.
func (c *Cluster) Meta(ctx context.Context, kind wire.Kind, fields any, body []byte) (wire.Answer, []byte, error) {
	head, err := wire.Control(kind, fields)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	return c.call(ctx, fmt.Sprintf("request %d to the meta group", kind), layout.MetaGroup, head, body)
}

// Ask is Meta for an answer as JSON. A refusal is an error.
func (c *Cluster) Ask(ctx context.Context, kind wire.Kind, fields, reply any) error {
	a, body, err := c.Meta(ctx, kind, fields, nil)
	switch {
	case err != nil:
		return err
	case a.Status != wire.OK:
		return errors.New(a.Detail)
	}
	return json.Unmarshal(body, reply)
}

// Shard asks the leader of a shard's group.
func (c *Cluster) Shard(ctx context.Context, group uint32, m wire.Message, body []byte) (wire.Answer, []byte, error) {
	return c.call(ctx, fmt.Sprintf("%T to %s", m, layout.GroupName(group)), group, wire.Append(nil, m), body)
}

func (c *Cluster) call(ctx context.Context, op string, group uint32, head, body []byte) (a wire.Answer, out []byte, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	call := link.Call{Head: head, Priority: link.Push}
	if len(body) > 0 {
		call.Body = [][]byte{body}
	}
	route := link.Route{Op: op, Replicas: func() []string { return c.addrs(group) }}
	_, err = route.Do(ctx, func(ctx context.Context, addr string) (link.Verdict, error) {
		reply, err := c.client.Call(ctx, addr, call)
		if err != nil {
			return link.Next(), err
		}
		if a, err = wire.DecodeAnswer(reply.Head); err != nil {
			return link.Fatal(), err
		}
		out = reply.Body
		switch a.Status {
		case wire.NotLeader:
			hint, _ := c.layout.Member(a.Leader)
			return link.Hint(hint.Addr), errors.New(a.Reason())
		case wire.Busy, wire.Pending:
			return link.Busy(time.Duration(a.After) * time.Millisecond), errors.New(a.Reason())
		default:
			return link.Done(), nil
		}
	})
	return a, out, err
}

// addrs are where the replicas of a group listen.
func (c *Cluster) addrs(group uint32) []string {
	var addrs []string
	for _, id := range c.layout.Replicas(group) {
		if m, ok := c.layout.Member(id); ok {
			addrs = append(addrs, m.Addr)
		}
	}
	return addrs
}
