package p2p

import (
	"context"
	"errors"
	"fmt"
)

// Unknown is the Len of a Sink for a stream: what the sender encodes has a length that nobody knows before.
const Unknown = -1

// OutStream is a transfer whose bytes are made block by block, each of a length that shows when it is encoded. The encoder runs ahead by a window of
// blocks, which are kept until the peer has them, so that each is encoded once whatever happens to connections.
//
//	for each block:
//		b, err := s.Next(ctx, bound)
//		n := encode(b, block)
//		err = s.Put(b[:n])
//	err = s.End()
//
// Next, Put and End are called by one goroutine, the rest may be called concurrently.
type OutStream struct {
	*Outgoing
	room chan struct{} // one token: a block was let go of

	// The rest belongs to the Transfer's mutex.
	blocks []block // that the peer may not have
	asked  bool    // the peer wants to hear of blocks
	final  bool    // no more will come
}

// block is an encoded part of a stream.
type block struct {
	off int
	b   []byte
}

// SendStream offers a stream as transfer id. The peer receives it with a Sink of length Unknown, which takes block by block.
func (t *Transfer) SendStream(id uint64) *OutStream {
	s := &OutStream{room: make(chan struct{}, 1)}
	s.Outgoing = &Outgoing{t: t, id: id, stream: s, done: make(chan struct{}), dropped: make(chan struct{})}
	t.offer(s.Outgoing)
	return s
}

// Next returns memory for a block of at most n bytes, when fewer than a window of blocks wait to be taken.
func (s *OutStream) Next(ctx context.Context, n int) ([]byte, error) {
	if n < 1 || n > MaxChunk {
		return nil, fmt.Errorf("send %d: block of %d bytes, want 1 to %d", s.id, n, MaxChunk)
	}
	for {
		t := s.t
		t.mu.Lock()
		ahead := len(s.blocks)
		window := t.policy.Window.Window(Pipelined, n, 0, 0)
		t.mu.Unlock()
		select {
		case <-s.done:
			return nil, s.over()
		default:
		}
		if ahead < window {
			return t.pool.Get(n), nil
		}
		select {
		case <-s.room:
		case <-s.done:
			return nil, s.over()
		case <-ctx.Done():
			return nil, fmt.Errorf("send %d: wait for room: %w", s.id, context.Cause(ctx))
		}
	}
}

// over is why a stream that is done takes no more.
func (s *OutStream) over() error {
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("send %d: the stream has ended", s.id)
}

// Put sends a block, the beginning of what Next returned; it belongs to the stream from then on. An empty one is none.
func (s *OutStream) Put(b []byte) error {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s.final:
		return errors.New("put block: the stream has ended")
	case s.cancelled:
		return s.err
	case len(b) == 0:
		return nil
	case len(b) > MaxChunk:
		return fmt.Errorf("put block of %d bytes, at most %d", len(b), MaxChunk)
	}
	s.blocks = append(s.blocks, block{s.total, b})
	s.total += len(b)
	if s.asked {
		s.announce(s.blocks[len(s.blocks)-1])
	}
	return nil
}

// End says that no block will follow. The transfer is done when the peer has all.
func (s *OutStream) End() error {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.cancelled {
		return s.err
	}
	s.final = true
	if s.asked {
		s.announce(block{off: s.total})
		s.finish()
	}
	return nil
}

// announce tells the peer of a block, or by an empty one of the end; t.mu is held.
func (s *OutStream) announce(b block) {
	s.t.cfg.Post(Signal{Kind: SignalOffer, Epoch: s.t.epoch, ID: s.id, Offset: uint64(b.off), Bytes: uint32(len(b.b))})
}

// find returns the block at an offset; t.mu is held.
func (s *OutStream) find(off, n int) ([]byte, bool) {
	for _, b := range s.blocks {
		if b.off == off && len(b.b) == n {
			return b.b, true
		}
	}
	return nil, false
}

// letGo frees the blocks that are not needed: of an ended stream all, else those that the peer has. t.mu is held.
func (s *OutStream) letGo() {
	for len(s.blocks) > 0 && (s.ended || s.blocks[0].off < s.acked) {
		s.t.pool.Put(s.blocks[0].b)
		s.blocks[0] = block{}
		s.blocks = s.blocks[1:]
		signal(s.room)
	}
}

// asks acts on SignalAsk; t.mu is held.
func (t *Transfer) asks(id uint64) error {
	o := t.outs[id]
	if o == nil || o.stream == nil || o.stream.asked {
		return fmt.Errorf("ask for stream %d, which nobody offered: %w", id, ErrMalformed)
	}
	s := o.stream
	s.asked = true
	if s.cancelled {
		return nil
	}
	for _, b := range s.blocks {
		s.announce(b)
	}
	if s.final {
		s.announce(block{off: s.total})
		s.finish()
	}
	return nil
}

// inStream is what is known of a stream that is received; it belongs to the Transfer's mutex.
type inStream struct {
	offers []int // lengths of the blocks that are not taken, in order
	asked  int   // of them, asked for in this epoch
	final  bool  // no more will come
}

// offered acts on SignalOffer; t.mu is held.
func (t *Transfer) offered(s Signal) error {
	in := t.ins[s.ID]
	if in == nil {
		return nil // this side gave it up at the same time
	}
	st := in.stream
	if st == nil || st.final || s.Offset != uint64(in.total) || s.Bytes > MaxChunk || len(st.offers) > 2*MaxWindow {
		return fmt.Errorf("offer of %d bytes at %d of transfer %d: %w", s.Bytes, s.Offset, s.ID, ErrMalformed)
	}
	if s.Bytes == 0 {
		st.final = true
		in.finish()
		return nil
	}
	st.offers = append(st.offers, int(s.Bytes))
	in.total += int(s.Bytes)
	signal(t.wakeReceive)
	return nil
}

// next is the length of the block to ask for.
func (st *inStream) next() int {
	st.asked++
	return st.offers[st.asked-1]
}

// took notes that the first block was taken.
func (st *inStream) took() {
	st.offers = st.offers[1:]
	st.asked--
}
