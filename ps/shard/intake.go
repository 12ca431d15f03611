package shard

import (
	"context"
	"fmt"

	"hcclps/internal/vec"
	"hcclps/ps/update"
)

const (
	// smallBody is the size up to which a body gets memory of its own: it has come
	// with its request.
	smallBody = 16 << 10
	// lookBytes is the part of a body that is copied and then looked at, while it is in the innermost cache.
	lookBytes = 16 << 10
)

// intake is the body of a request. It is a p2p.Sink that looks, while bytes arrive, for numbers that are not finite.
type intake struct {
	body  []byte
	kept  bool // body is to be given back to Group.memory when nobody reads it any more
	clean int  // so many of the first bytes hold nothing that would be an infinity or a NaN, whatever they are
}

// finite says that no value in the body can be other than finite. Without it values must be looked at where they are known to lie.
func (t *intake) finite() bool { return len(t.body) > 0 && t.clean == len(t.body) }

// Len implements p2p.Sink.
func (t *intake) Len() int { return len(t.body) }

// Place implements p2p.Placer.
func (t *intake) Place(off, n int) []byte { return t.body[off:][:n] }

// Take implements p2p.Sink.
func (t *intake) Take(off int, p []byte) error {
	placed := len(p) > 0 && &p[0] == &t.body[off]
	for len(p) > 0 {
		n := min(len(p), lookBytes)
		part := t.body[off:][:n]
		if !placed {
			copy(part, p)
		}
		if off == t.clean && (off|n)%4 == 0 && vec.NonFinite(vec.Floats(part)) < 0 {
			t.clean += n
		}
		off, p = off+n, p[n:]
	}
	return nil
}

// body receives a body. Its memory is the caller's to give back, also after an error.
func (g *Group) body(ctx context.Context, n int, r Request) (t intake, err error) {
	if n <= smallBody {
		t.body, err = r.Body(ctx)
		return t, err
	}
	t.body, t.kept = g.memory.Get(n), true
	err = r.BodyTo(ctx, &t)
	return t, err
}

// decode decodes the coded sections of a contribution, for which the sender has said how much memory they need. The body stays as it came: it is what
// is logged.
func (g *Group) decode(c *contribution, plain uint64) error {
	n, err := update.PlainSize(c.sections)
	if err != nil || n == 0 {
		return err
	}
	if uint64(n) > plain {
		return fmt.Errorf("it decodes to %d bytes, and was announced with %d", n, plain)
	}
	return update.Decode(c.sections, func(n int) []byte {
		c.plain = g.memory.Get(n)
		return c.plain
	})
}
