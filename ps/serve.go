package ps

import (
	"context"
	"encoding/json"
	"fmt"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// unready is the hint of a server that has not started its groups, in milliseconds.
const unready = 100

// replier is the part of a *link.Request that is answered.
type replier interface {
	Reply(head []byte, body ...[]byte) error
}

// serve answers one request: to a shard, to the meta group, or to this server.
func (s *Server) serve(ctx context.Context, r *link.Request) {
	kind, err := wire.Peek(r.Head)
	switch {
	case err != nil:
		s.reply(r, wire.Answer{Status: wire.Refused, Detail: err.Error()}, nil)
	case kind < wire.KindOpen:
		s.serveShard(ctx, r)
	case kind < wire.KindIdentify:
		s.serveMeta(ctx, kind, r)
	default:
		a, body := s.control(ctx, kind, r)
		s.reply(r, a, body)
	}
}

func (s *Server) serveShard(ctx context.Context, r *link.Request) {
	m, err := wire.Decode(r.Head)
	if err != nil {
		s.reply(r, wire.Answer{Status: wire.Refused, Detail: err.Error()}, nil)
		return
	}
	id, g := groupOf(m), s.groups.Load()
	if g == nil {
		s.reply(r, s.notYet(), nil)
		return
	}
	if sh := g.shards[id]; sh != nil {
		sh.Serve(ctx, m, r.BodyLen, r)
		return
	}
	s.reply(r, s.elsewhere(id), nil)
}

func (s *Server) serveMeta(ctx context.Context, kind wire.Kind, r *link.Request) {
	switch g := s.groups.Load(); {
	case g == nil:
		s.reply(r, s.notYet(), nil)
	case g.meta == nil:
		s.reply(r, s.elsewhere(layout.MetaGroup), nil)
	default:
		g.meta.Serve(ctx, kind, r.Head, r)
	}
}

func (s *Server) notYet() wire.Answer {
	return wire.Answer{Status: wire.Busy, After: unready, Detail: fmt.Sprintf("server %q is starting", s.cfg.Name)}
}

// elsewhere sends the caller to the preferred leader of a group that is not here.
func (s *Server) elsewhere(id uint32) wire.Answer {
	ids := s.Layout().Replicas(id)
	if len(ids) == 0 {
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("%s does not exist: cluster %q has %d shards", layout.GroupName(id), s.cfg.Cluster, len(s.Layout().Shards))}
	}
	return wire.Answer{Status: wire.NotLeader, Leader: ids[0], Detail: fmt.Sprintf("server %q does not replicate %s", s.cfg.Name, layout.GroupName(id))}
}

// groupOf is the group a message is for.
func groupOf(m wire.Message) uint32 {
	switch m := m.(type) {
	case *wire.Push:
		return m.Group
	case *wire.Pull:
		return m.Group
	case *wire.Fence:
		return m.Group
	case *wire.Finish:
		return m.Group
	case *wire.Hold:
		return m.Group
	case *wire.Release:
		return m.Group
	case *wire.Probe:
		return m.Group
	case *wire.Scan:
		return m.Group
	case *wire.Put:
		return m.Group
	case *wire.Rule:
		return m.Group
	case *wire.Checkpoint:
		return m.Group
	case *wire.Restore:
		return m.Group
	case *wire.Find:
		return m.Group
	default:
		return layout.MetaGroup // no shard has this number
	}
}

// control answers a request to the server itself.
func (s *Server) control(ctx context.Context, kind wire.Kind, r *link.Request) (wire.Answer, any) {
	fields := r.Head
	if r.BodyLen > 0 {
		body, err := r.Body(ctx)
		if err != nil {
			return wire.Answer{Status: wire.Refused, Detail: err.Error()}, nil
		}
		fields = append(fields[:2:2], body...)
	}
	switch kind {
	case wire.KindIdentify:
		return wire.Answer{}, s.whoami()
	case wire.KindForm:
		f, err := decodeFormation(fields[2:])
		if err == nil {
			err = s.adopt(ctx, f, "server "+r.Peer.From)
		}
		return verdict(err), nil
	case wire.KindStatus:
		var q wire.StatusRequest
		if err := wire.DecodeControl(fields, &q); err != nil {
			return verdict(err), nil
		}
		return wire.Answer{}, s.Status(q.Waiting)
	case wire.KindLayout:
		f, ok := s.formed()
		if !ok {
			return wire.Answer{Status: wire.Busy, After: unready, Detail: fmt.Sprintf("cluster %q is not formed yet; it waits for servers of %v", s.cfg.Cluster, s.cfg.Peers)}, nil
		}
		return wire.Answer{}, f.Layout
	default:
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("request of unknown kind %d", kind)}, nil
	}
}

func verdict(err error) wire.Answer {
	if err != nil {
		return wire.Answer{Status: wire.Refused, Detail: err.Error()}
	}
	return wire.Answer{}
}

func (s *Server) reply(r replier, a wire.Answer, fields any) {
	var body []byte
	if fields != nil {
		var err error
		if body, err = json.Marshal(fields); err != nil {
			a = verdict(fmt.Errorf("encode reply: %w", err))
		}
	}
	if err := r.Reply(wire.AppendAnswer(nil, a), body); err != nil {
		s.log.Debug("reply not sent", "status", a.Status, "err", err)
	}
}
