package shard

import (
	"fmt"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// sweep evicts after a complete step. It is a part of the step: so the rows of a job are the same through any change of leader, and on any
// number of shards.
func (s *State) sweep(j *job) {
	turn := j.Clock
	if j.Params.Sync != wire.BSP {
		turn = j.Applied
	}
	for _, t := range j.Tables {
		if t.Evicts() {
			s.evicted(t, t.Sweep(turn, j.Clock))
		}
	}
}

// evicted adds the rows that are gone to the digest.
func (s *State) evicted(t *tab, keys []uint64) {
	if s.cfg.Alone || len(keys) == 0 {
		return
	}
	s.digest.word(uint64(t.Slot))
	for _, k := range keys {
		s.digest.word(k)
	}
}

// sweepTime evicts what outlived its time.
func (s *State) sweepTime(m *wire.Sweep) wire.Answer {
	j := s.jobs[m.Job]
	if j == nil {
		return wire.Answer{Status: wire.Unknown, Detail: clean(fmt.Sprintf("job %q is unknown here", m.Job))}
	}
	t := j.table(m.Table)
	if t == nil || m.To > table.Partitions || m.From > m.To {
		return j.answer(wire.Refused, fmt.Sprintf("sweep of partitions %d to %d of table %d: no such table or partitions", m.From, m.To, m.Table))
	}
	s.evicted(t, t.SweepTime(m.Time, j.Clock, int(m.From), int(m.To)))
	s.digest.word(t.Kept.Time)
	return j.answer(wire.OK, "")
}

// stamped is a stamp for rows that can be evicted. Where workers are not in step, the slowest must not make rows older than they are: a row is
// as new as the step that follows those any worker has completed.
func (j *job) stamped(t *tab, st table.Stamp) table.Stamp {
	if t.Evicts() && j.Params.Sync != wire.BSP {
		st.Step = max(st.Step, uint32(j.Clock+1))
	}
	return st
}
