package ps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// caller is the meta leader's way to the shards: meta.Shards over the network,
// also to groups this server leads itself.
type caller struct{ s *Server }

// Call asks the leader of a group until ctx ends.
func (c caller) Call(ctx context.Context, group uint32, m wire.Message) (wire.Answer, []byte, error) {
	l := c.s.Layout()
	head := wire.Append(nil, m)
	route := link.Route{
		Op: fmt.Sprintf("%T to %s", m, layout.GroupName(group)),
		Replicas: func() []string {
			var addrs []string
			for _, id := range l.Replicas(group) {
				if m, ok := l.Member(id); ok {
					addrs = append(addrs, m.Addr)
				}
			}
			return addrs
		},
	}
	var answer wire.Answer
	var body []byte
	_, err := route.Do(ctx, func(ctx context.Context, addr string) (link.Verdict, error) {
		reply, err := c.s.client.Call(ctx, addr, link.Call{Head: head, Priority: link.Push})
		if err != nil {
			return link.Next(), err
		}
		if answer, err = wire.DecodeAnswer(reply.Head); err != nil {
			return link.Fatal(), err
		}
		switch answer.Status {
		case wire.NotLeader:
			hint, _ := l.Member(answer.Leader)
			return link.Hint(hint.Addr), errors.New(answer.Reason())
		case wire.Busy:
			return link.Busy(time.Duration(answer.After) * time.Millisecond), errors.New(answer.Reason())
		default:
			body = reply.Body
			return link.Done(), nil
		}
	})
	return answer, body, err
}
