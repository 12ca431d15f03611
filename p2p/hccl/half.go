package hccl

import (
	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
)

// message is a posted send or receive of this side.
type message struct {
	n        int
	move     func(piece []byte) error // fills a piece, or takes it; nil if the message lies in device memory
	ptr      uintptr                  // device memory
	pinned   uintptr                  // host memory that the device reaches by itself: pieces are not moved
	staged   int                      // bytes that have, or had, a slot
	stepped  int                      // bytes in steps
	finished int                      // bytes that are through
	ended    bool                     // its last step is issued
	req      p2p.Completion
}

func (m *message) device() bool { return m.move == nil }

// piece is a slot and how many bytes of it count.
type piece struct {
	*slot
	m  *message
	n  int
	at uintptr // where the piece lies, or is to lie, on the host: in the slot, or in pinned memory
}

// half is this side's end of a flow. The Comm's lock guards it.
type half struct {
	flow  int
	sends bool

	toStage  queue[*message] // in host memory, with bytes that have no slot yet
	toStep   queue[*message]
	toFinish queue[*message]

	ready   queue[piece] // sends: filled and on the way to the device; receives: room
	arrived queue[piece] // receives: back on the host
	slots   map[*slot]struct{}
	wake    chan struct{}
}

func newHalf(flow int, sends bool) *half {
	return &half{flow: flow, sends: sends, wake: make(chan struct{}, 1), slots: make(map[*slot]struct{})}
}

// poke wakes the stager.
func (h *half) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// post queues a message.
func (h *half) post(m *message) {
	if !m.device() && m.n > 0 {
		h.toStage.push(m)
	}
	h.toStep.push(m)
	h.toFinish.push(m)
}

// next is the message and the length of the piece to stage next, if a slot is to be had.
func (h *half) next(size, depth int) (*message, int) {
	if h.toStage.len() == 0 || len(h.slots) >= depth {
		return nil, 0
	}
	m := *h.toStage.front()
	return m, min(m.n-m.staged, size)
}

// stage counts a piece of n bytes as staged in a slot.
func (h *half) stage(s *slot, m *message, n int) piece {
	p := piece{s, m, n, s.host}
	if m.pinned != 0 {
		p.at = m.pinned + uintptr(m.staged)
	}
	if m.staged += n; m.staged == m.n {
		h.toStage.pop()
	}
	h.ready.push(p)
	return p
}

// work is a step as this side issues it.
type work struct {
	m   *message
	s   *slot   // nil for device memory
	at  uintptr // of a piece on the host
	ptr uintptr // on the device
	n   int
}

// take turns a step into work, or says that the step does not fit what was posted here: the peer broke the protocol.
func (h *half) take(s step) (work, bool) {
	if h.toStep.len() == 0 {
		return work{}, false
	}
	m := *h.toStep.front()
	left := uint64(m.n - m.stepped)
	if s.n > left || s.last != (s.n == left) || s.n == 0 && m.n > 0 {
		return work{}, false
	}
	w := work{m: m, n: int(s.n), ptr: m.ptr + uintptr(m.stepped)}
	if !m.device() && s.n > 0 {
		if h.ready.len() == 0 || h.ready.front().n != w.n {
			return work{}, false
		}
		p := h.ready.pop()
		w.s, w.at, w.ptr = p.slot, p.at, p.dev
	}
	m.stepped += w.n
	if s.last {
		m.ended = true
		h.toStep.pop()
	}
	return w, true
}

// finish completes the messages at the front that are through, in order.
func (h *half) finish() {
	for h.toFinish.len() > 0 {
		m := *h.toFinish.front()
		if !m.ended || m.finished < m.n {
			return
		}
		h.toFinish.pop()
		m.req.Complete(nil)
	}
}

// fail completes messages with an error: all, or those in memory that the device does not touch.
func (h *half) fail(err error, all bool) {
	kept := queue[*message]{}
	for h.toFinish.len() > 0 {
		if m := h.toFinish.pop(); all || !m.device() && m.pinned == 0 {
			m.req.Complete(err)
		} else {
			kept.push(m)
		}
	}
	h.toFinish = kept
}

// issue puts the operator of a step on the pair's stream, between the events of the mark. It runs on the issuer.
func (b *bond) issue(lib *acl.Lib, k *mark, w work, sends bool, peer int) error {
	if sends && w.s != nil {
		if err := lib.StreamWaitEvent(b.stream, w.s.copied); err != nil {
			return err
		}
	}
	if err := lib.RecordEvent(k.start, b.stream); err != nil {
		return err
	}
	operator := lib.Recv
	if sends {
		operator = lib.Send
	}
	if err := operator(w.ptr, uint64(w.n), acl.Uint8, peer, b.comm, b.stream); err != nil {
		return err
	}
	return lib.RecordEvent(k.end, b.stream)
}

// upload begins to copy a filled slot to the device. It runs on the issuer.
func (b *bond) upload(lib *acl.Lib, p piece) error {
	if err := lib.MemcpyAsync(p.dev, p.at, p.n, acl.HostToDevice, b.up); err != nil {
		return err
	}
	return lib.RecordEvent(p.copied, b.up)
}

// download copies a received slot to the host, behind the operator of the mark. It runs on the issuer.
func (b *bond) download(lib *acl.Lib, k *mark, w work) error {
	if err := lib.StreamWaitEvent(b.down, k.end); err != nil {
		return err
	}
	if err := lib.MemcpyAsync(w.at, w.s.dev, w.n, acl.DeviceToHost, b.down); err != nil {
		return err
	}
	return lib.RecordEvent(w.s.copied, b.down)
}
