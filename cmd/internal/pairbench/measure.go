package pairbench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// job is one timed run, the same on both ranks.
type job struct {
	Size   int  `json:"size"`
	Count  int  `json:"count"`  // messages a direction
	Slots  int  `json:"slots"`  // buffers in turn
	Stream bool `json:"stream"` // else ping-pong
	Both   bool `json:"both"`   // streams in both directions at once
	Check  bool `json:"check"`  // compare contents afterwards
	End    bool `json:"end"`    // nothing to do, and nothing will follow
}

// least is the smallest number of messages.
func (j job) least() int {
	if j.Stream {
		return j.Slots
	}
	return 1
}

// outcome is what one rank saw of it.
type outcome struct {
	Wall  time.Duration `json:"wall"`
	CPU   time.Duration `json:"cpu"`
	Wrong int           `json:"wrong"` // messages with other bytes than were sent
	Err   string        `json:"err,omitempty"`
}

// side is one rank with its buffers.
type side struct {
	ends     messages
	out, in  [][]byte
	pending  []waiter
	received []waiter
	token    []byte
}

func newSide(ends messages) *side { return &side{ends: ends, token: make([]byte, 1)} }

func (s *side) peer() int { return 1 - s.ends.rank() }

// sends and receives say what this rank does in a job.
func (s *side) sends(j job) bool    { return s.ends.rank() == 0 || !j.Stream || j.Both }
func (s *side) receives(j job) bool { return s.ends.rank() == 1 || !j.Stream || j.Both }

// do runs a job. Both ranks are inside it at the same time.
func (s *side) do(ctx context.Context, j job) (o outcome, err error) {
	s.prepare(j)
	if err := s.meet(ctx); err != nil {
		return o, fmt.Errorf("meet the other rank: %w", err)
	}
	cpu, start := cpuTime(), time.Now()
	if j.Stream {
		err = s.stream(ctx, j)
	} else {
		err = s.pingPong(ctx, j)
	}
	o.Wall, o.CPU = time.Since(start), cpuTime()-cpu
	if err != nil {
		return o, fmt.Errorf("transfer messages of %d bytes: %w", j.Size, err)
	}
	if j.Check {
		o.Wrong = s.wrong(j)
	}
	return o, nil
}

// prepare makes the buffers: what is sent is a function of slot and sender, what is received into has other bytes.
func (s *side) prepare(j job) {
	if len(s.out) != j.Slots || len(s.out[0]) != j.Size {
		s.out, s.in = nil, nil // two sizes at once need not fit
	}
	if s.sends(j) && s.out == nil {
		s.out = make([][]byte, j.Slots)
		for i := range s.out {
			s.out[i] = make([]byte, j.Size)
			fill(s.out[i], s.ends.rank(), i)
		}
	}
	if s.receives(j) && s.in == nil {
		s.in = make([][]byte, j.Slots)
		for i := range s.in {
			s.in[i] = make([]byte, j.Size)
		}
	}
	if s.receives(j) && j.Check {
		for i := range s.in {
			clear(s.in[i])
		}
	}
}

// wrong counts the received buffers that differ from what the other rank has sent.
func (s *side) wrong(j job) (n int) {
	if !s.receives(j) {
		return 0
	}
	for i := range min(j.Slots, j.Count) {
		if !filled(s.in[i], s.peer(), i) {
			n++
		}
	}
	return n
}

// meet returns when both ranks are here.
func (s *side) meet(ctx context.Context) error {
	in := make([]byte, 1)
	recv := s.ends.recv(in)
	if err := s.ends.send(s.token).Wait(ctx); err != nil {
		return err
	}
	return recv.Wait(ctx)
}

func (s *side) pingPong(ctx context.Context, j job) error {
	first := s.ends.rank() == 0
	for i := range j.Count {
		slot := i % j.Slots
		if first {
			if err := s.ends.send(s.out[slot]).Wait(ctx); err != nil {
				return err
			}
		}
		if err := s.ends.recv(s.in[slot]).Wait(ctx); err != nil {
			return err
		}
		if !first {
			if err := s.ends.send(s.out[slot]).Wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// stream keeps a window of as many messages as there are slots under way, in one direction or both.
func (s *side) stream(ctx context.Context, j job) error {
	s.pending, s.received = s.pending[:0], s.received[:0]
	for i := range j.Count {
		if i >= j.Slots {
			if err := s.oldest(ctx, i-j.Slots); err != nil {
				return err
			}
		}
		if s.receives(j) {
			s.received = append(s.received, s.ends.recv(s.in[i%j.Slots]))
		}
		if s.sends(j) {
			s.pending = append(s.pending, s.ends.send(s.out[i%j.Slots]))
		}
	}
	for i := max(0, j.Count-j.Slots); i < j.Count; i++ {
		if err := s.oldest(ctx, i); err != nil {
			return err
		}
	}
	return s.meet(ctx) // the receiver has all
}

// oldest waits for the message i of the stream.
func (s *side) oldest(ctx context.Context, i int) error {
	if i < len(s.received) {
		if err := s.received[i].Wait(ctx); err != nil {
			return err
		}
		s.received[i] = nil
	}
	if i < len(s.pending) {
		if err := s.pending[i].Wait(ctx); err != nil {
			return err
		}
		s.pending[i] = nil
	}
	return nil
}

// fill writes the bytes that a rank sends from a slot: every word depends on its place.
func fill(b []byte, rank, slot int) {
	word := seed(rank, slot)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, word)
		word += step
		b = b[8:]
	}
	copy(b, rest(word, len(b)))
}

// filled says whether b is what fill writes.
func filled(b []byte, rank, slot int) bool {
	word := seed(rank, slot)
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != word {
			return false
		}
		word += step
		b = b[8:]
	}
	return bytes.Equal(b, rest(word, len(b)))
}

// rest is the last bytes of a message, fewer than eight.
func rest(word uint64, n int) []byte {
	return binary.BigEndian.AppendUint64(nil, word*step)[:n]
}

const step = 0x9e3779b97f4a7c15

func seed(rank, slot int) uint64 { return uint64(rank+1)<<32 + uint64(slot+1)<<8 }

// cpuTime is the time that all threads of this process have run.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
