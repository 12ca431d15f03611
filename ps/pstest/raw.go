package pstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// raw speaks to the servers below the SDK: it sends what a sound worker would
// not, and shows every answer.
type raw struct {
	link   *link.Client
	layout layout.Layout
	run    sync.WaitGroup
	stop   context.CancelFunc
}

// newRaw starts the client's goroutines; close it.
func newRaw(ctx context.Context, network link.Network, id string, l layout.Layout) (*raw, error) {
	c, err := link.NewClient(link.Config{Network: network, Pair: backend.Pair, Cluster: clusterName, ID: id})
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", id, err)
	}
	r := &raw{link: c, layout: l}
	ctx, r.stop = context.WithCancel(ctx)
	r.run.Go(func() { _ = c.Run(ctx) }) // nil at the end of ctx
	return r, nil
}

func (r *raw) close() {
	r.stop()
	r.run.Wait()
}

// reply is an answer and its body.
type reply struct {
	answer wire.Answer
	body   []byte
}

// errAsked says that a request may have been acted on without an answer.
var errAsked = errors.New("asked, but no answer came")

// ask sends a request to the leader of a group until there is an answer other
// than one that names another replica or asks for patience. With once, a request
// that was sent and not answered is not sent again.
func (r *raw) ask(ctx context.Context, group uint32, head, body []byte, once bool) (reply, error) {
	route := link.Route{Op: "verify", Replicas: func() []string {
		var addrs []string
		for _, id := range r.layout.Replicas(group) {
			if m, ok := r.layout.Member(id); ok {
				addrs = append(addrs, m.Addr)
			}
		}
		return addrs
	}}
	call := link.Call{Head: head, Priority: link.Push}
	if len(body) > 0 {
		call.Body = [][]byte{body}
	}
	var got reply
	_, err := route.Do(ctx, func(ctx context.Context, addr string) (link.Verdict, error) {
		rep, err := r.link.Call(ctx, addr, call)
		switch {
		case err != nil && once && !errors.Is(err, link.ErrUnreachable):
			return link.Fatal(), fmt.Errorf("%w: %w", errAsked, err)
		case err != nil:
			return link.Next(), err
		}
		if got.answer, err = wire.DecodeAnswer(rep.Head); err != nil {
			return link.Fatal(), err
		}
		got.body = rep.Body
		switch got.answer.Status {
		case wire.NotLeader:
			m, _ := r.layout.Member(got.answer.Leader)
			return link.Hint(m.Addr), errors.New("not leader")
		case wire.Busy, wire.Pending:
			return link.Busy(time.Duration(max(got.answer.After, 5)) * time.Millisecond), errors.New(got.answer.Detail)
		default:
			return link.Done(), nil
		}
	})
	if err != nil {
		return reply{}, fmt.Errorf("ask group %d: %w", group, err)
	}
	return got, nil
}

// control asks the meta group once.
func (r *raw) control(ctx context.Context, k wire.Kind, fields, answer any) (wire.Answer, error) {
	head, err := wire.Control(k, fields)
	if err != nil {
		return wire.Answer{}, err
	}
	got, err := r.ask(ctx, layout.MetaGroup, head, nil, true)
	if err == nil && got.answer.Status == wire.OK {
		err = json.Unmarshal(got.body, answer)
	}
	return got.answer, err
}
