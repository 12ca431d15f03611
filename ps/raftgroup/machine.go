package raftgroup

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/hashicorp/raft"

	"hcclps/ps/layout"
)

// machine stands between raft and the group's state machine: it lets only
// commands through, turns a panic into the group's failure, and notices when
// the log has grown.
type machine struct {
	node *Node
	fsm  raft.FSM
}

// Apply implements raft.FSM; raft uses ApplyBatch.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM.
func (m *machine) ApplyBatch(logs []*raft.Log) (out []any) {
	out = make([]any, len(logs))
	defer m.guard("apply entries", logs[0].Index)
	select {
	case <-m.node.failed:
		for i := range out {
			out[i] = m.node.cause
		}
		return out
	default:
	}
	for from := 0; from < len(logs); {
		if logs[from].Type != raft.LogCommand {
			from++
			continue
		}
		to := from
		for to < len(logs) && logs[to].Type == raft.LogCommand {
			to++
		}
		m.run(logs[from:to], out[from:to])
		from = to
	}
	m.weigh()
	return out
}

func (m *machine) run(logs []*raft.Log, out []any) {
	if b, ok := m.fsm.(raft.BatchingFSM); ok {
		copy(out, b.ApplyBatch(logs))
		return
	}
	for i, l := range logs {
		out[i] = m.fsm.Apply(l)
	}
}

// weigh asks for a snapshot when the log has passed its threshold.
func (m *machine) weigh() {
	if used, _ := m.node.cfg.Log.Bytes(); used > m.node.threshold.Load() {
		select {
		case m.node.grown <- struct{}{}:
		default:
		}
	}
}

// Snapshot implements raft.FSM. What is put off is nothing new to raft, which passes on no other error as it is, and logs it as its own.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	s, err := m.fsm.Snapshot()
	if errors.Is(err, ErrLater) {
		m.node.later.Store(&err)
		return nil, raft.ErrNothingNewToSnapshot
	}
	if err != nil {
		return nil, err
	}
	return persisting{s, m.node}, nil
}

// persisting is a snapshot of the state machine that notices when it is put off: raft passes on no error of Persist but as text.
type persisting struct {
	raft.FSMSnapshot
	node *Node
}

// Persist implements raft.FSMSnapshot.
func (p persisting) Persist(sink raft.SnapshotSink) error {
	err := p.FSMSnapshot.Persist(sink)
	if errors.Is(err, ErrLater) {
		p.node.later.Store(&err)
	}
	return err
}

// Restore implements raft.FSM.
func (m *machine) Restore(r io.ReadCloser) error {
	if err := m.fsm.Restore(r); err != nil {
		return fmt.Errorf("restore %s: %w", layout.GroupName(m.node.cfg.Group), err)
	}
	return nil
}

func (m *machine) guard(what string, index uint64) {
	if p := recover(); p != nil {
		m.node.Fail(fmt.Errorf("%s from %d: panic: %v\n%s", what, index, p, debug.Stack()))
	}
}
