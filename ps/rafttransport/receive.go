package rafttransport

import (
	"bufio"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"hcclps/internal/vec"
)

const (
	ownSpace    = 64 << 10  // from this size on a payload has an Alloc of its own; smaller neighbours share one
	sharedSpace = 128 << 10 // of at most this size, which every log must be able to give
	spaceAlign  = 64        // where a payload begins in it, so that the log can keep it there
)

// allocError says that the log has no space. The payloads have been read and thrown away.
type allocError struct{ err error }

func (e *allocError) Error() string { return fmt.Sprintf("no space in the log: %v", e.err) }
func (e *allocError) Unwrap() error { return e.err }

// receive reads the payloads of an append into the log's space and completes its entries. release gives the space back, when raft has
// answered; on error it has been done.
func receive(r *bufio.Reader, q *request, log Log, trusted bool) (release func(), err error) {
	if q.size == 0 {
		return func() {}, nil
	}
	entries := q.cmd.(*raft.AppendEntriesRequest).Entries
	var held []func()
	release = func() {
		for _, f := range held {
			f()
		}
	}
	for i, read := 0, int64(0); i < len(entries); {
		n, space := run(q.parts[i:])
		var buf []byte
		if space > 0 {
			var free func()
			if buf, free, err = log.Alloc(space); err != nil {
				release()
				if _, err := io.CopyN(io.Discard, r, q.size-read); err != nil {
					return nil, err
				}
				return nil, &allocError{err}
			}
			held = append(held, free)
		}
		for ; n > 0; n-- {
			if size := q.parts[i].n; size > 0 {
				entries[i].Data = buf[:size:size]
				buf = buf[min(align(size), len(buf)):]
				if _, err := io.ReadFull(r, entries[i].Data); err != nil {
					release()
					return nil, err
				}
				read += int64(size)
			}
			i++
		}
	}
	if trusted {
		return release, nil
	}
	for i, e := range entries {
		if crc := vec.CRC32C(0, e.Data); crc != q.parts[i].crc {
			release()
			return nil, fmt.Errorf("%w: entry %d of group %d was damaged on the way: CRC is %08x, not %08x", errMalformed, e.Index, q.group, crc, q.parts[i].crc)
		}
	}
	return release, nil
}

// run counts the parts at the front that share space, and the bytes they need.
func run(parts []part) (n, space int) {
	for n < len(parts) {
		small := parts[0].n < ownSpace && parts[n].n < ownSpace
		if n > 0 && (!small || align(space)+parts[n].n > sharedSpace) {
			break
		}
		if parts[n].n > 0 {
			space = align(space) + parts[n].n
		}
		n++
	}
	return n, space
}

func align(n int) int { return (n + spaceAlign - 1) &^ (spaceAlign - 1) }
