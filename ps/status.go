package ps

import (
	"strings"
	"time"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// Status is what this server sees; with waiting it says who waits for whom.
func (s *Server) Status(waiting bool) wire.ServerStatus {
	select {
	case <-s.opened:
	default:
		return wire.ServerStatus{Uptime: time.Since(s.started), Time: now()}
	}
	out := wire.ServerStatus{
		Name: s.cfg.Name, Addr: s.cfg.Advertise, Version: s.cfg.Version, Uptime: time.Since(s.started), Time: now(),
	}
	for _, p := range s.bulk.Picks() {
		out.Pairs = append(out.Pairs, wire.PairStatus{Peer: p.Peer, Transport: string(p.By), Reason: p.Reason, Since: p.At})
	}
	f, formed := s.formed()
	g := s.groups.Load()
	if !formed || g == nil {
		return out
	}
	out.ID = s.self.ID
	out.Memory = s.memoryStatus(g)
	for _, id := range g.ids {
		var gs wire.GroupStatus
		if id == layout.MetaGroup {
			gs = g.meta.Status(waiting)
		} else {
			gs = g.shards[id].Status(waiting)
			gs.Durable = f.durable()
			rows, bytes := g.shards[id].Size()
			out.Rows, out.Bytes = out.Rows+rows, out.Bytes+bytes
		}
		gs.Group = id
		out.Groups = append(out.Groups, gs)
	}
	return out
}

// memoryStatus is the memory of the tables here.
func (s *Server) memoryStatus(g *groups) wire.MemoryStatus {
	st := s.cold.Stats()
	out := wire.MemoryStatus{Limit: g.memory.Limit(), Used: g.memory.Used(), Disk: st.Disk + st.Vlog, Read: st.Read, Written: st.Written}
	for _, sh := range g.shards {
		rows, misses := sh.Cold()
		out.ColdRows, out.Misses = out.ColdRows+rows, out.Misses+misses
	}
	return out
}

// leaderless says what Ready waits for, "" when there is nothing.
func (s *Server) leaderless() string {
	g := s.groups.Load()
	if g == nil {
		return "its groups are not open yet"
	}
	var lacking []string
	for _, id := range g.ids {
		var leader string
		var leads, here bool
		if id == layout.MetaGroup {
			leader, leads = g.meta.Status(false).Leader, g.meta.IsLeader()
		} else {
			leader, leads = g.shards[id].Status(false).Leader, g.shards[id].IsLeader()
		}
		here = leader == s.self.ID
		if leader == "" && !leads || here && !leads {
			lacking = append(lacking, layout.GroupName(id))
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	return "no leader yet of " + strings.Join(lacking, ", ")
}

// now is the time without what JSON does not carry.
func now() time.Time { return time.Now().Round(0).UTC() }
