package meta

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hashicorp/raft"

	"hcclps/ps/raftgroup"
	"hcclps/ps/wire"
)

// Hints of a Busy answer, in milliseconds.
const (
	catchingUp = 20  // a new leader is about to answer
	logFull    = 200 // until a snapshot has made room
)

// Serve answers one request of kind KindOpen to KindRestoreJob. It waits for what the
// request sets off: a plan for a table, say. The caller bounds ctx.
func (g *Group) Serve(ctx context.Context, kind wire.Kind, head []byte, r Request) {
	a, reply := g.answer(ctx, kind, head, r)
	st := g.node.Status()
	a.Term, a.Index = st.Term, st.Applied
	var body []byte
	if b, ok := reply.(raw); ok {
		body = b
	} else if reply != nil && a.Status == wire.OK {
		var err error
		if body, err = json.Marshal(reply); err != nil {
			a = refuse(wire.Refused, "encode reply: %v", err)
		}
	}
	if err := r.Reply(wire.AppendAnswer(nil, a), body); err != nil {
		g.cfg.Logger.Debug("reply not sent", "kind", kind, "err", err)
	}
}

func (g *Group) answer(ctx context.Context, kind wire.Kind, head []byte, r Request) (wire.Answer, any) {
	l := g.leader.Load()
	if l == nil || !g.node.IsLeader() {
		return g.elsewhere(), nil
	}
	if g.node.Full() {
		return wire.Answer{Status: wire.Busy, After: logFull, Detail: "the meta log is full until its next snapshot"}, nil
	}
	switch kind {
	case wire.KindOpen:
		return handle(ctx, head, l.open)
	case wire.KindRenew:
		return handle(ctx, head, l.renew)
	case wire.KindClose:
		return handle(ctx, head, l.close)
	case wire.KindTable:
		return handle(ctx, head, l.table)
	case wire.KindClaim:
		return handle(ctx, head, l.claim)
	case wire.KindPlan:
		return handle(ctx, head, l.plan)
	case wire.KindNote:
		return handle(ctx, head, l.note)
	case wire.KindCheckpoints:
		return handle(ctx, head, l.checkpoints)
	case wire.KindResume:
		return handle(ctx, head, l.resumed)
	case wire.KindUpload:
		return handle(ctx, head, func(ctx context.Context, q wire.UploadRequest) (result, error) { return l.upload(ctx, q, r) })
	case wire.KindRestoreJob:
		return handle(ctx, head, func(ctx context.Context, q wire.RestoreRequest) (result, error) { return l.restoreJob(ctx, q, r) })
	default:
		return refuse(wire.Refused, "kind %d is no request to the meta group", kind), nil
	}
}

// handle decodes a request, has it done, and turns an error into an answer.
func handle[T any](ctx context.Context, head []byte, do func(context.Context, T) (result, error)) (wire.Answer, any) {
	var req T
	if err := wire.DecodeControl(head, &req); err != nil {
		return refuse(wire.Refused, "%v", err), nil
	}
	res, err := do(ctx, req)
	if err != nil {
		return failed(err), nil
	}
	return res.Answer, res.Reply
}

// failed says what a caller does about an error: everything that comes of a
// change of leader is asked again elsewhere.
func failed(err error) wire.Answer {
	var no refused
	switch {
	case errors.As(err, &no):
		return no.answer
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrLeadershipTransferInProgress),
		errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raftgroup.ErrStopped), errors.Is(err, errDeposed):
		return refuse(wire.NotLeader, "%v", err)
	case errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return wire.Answer{Status: wire.Busy, After: logFull, Detail: err.Error()}
	default:
		return refuse(wire.Refused, "%v", err)
	}
}

// elsewhere sends the caller to the leader.
func (g *Group) elsewhere() wire.Answer {
	leader := g.node.Leader()
	if leader == g.cfg.Self {
		return wire.Answer{Status: wire.Busy, After: catchingUp, Detail: "the new leader of the meta group is catching up"}
	}
	return wire.Answer{Status: wire.NotLeader, Leader: leader}
}
