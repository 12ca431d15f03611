package rafttransport

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/hashicorp/raft"
)

// ownSpace is the size from which a payload has an Alloc of its own; smaller neighbours share one.
const ownSpace = 64 << 10

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
		n, bytes := run(q.parts[i:])
		if bytes > 0 {
			buf, free, err := log.Alloc(bytes)
			if err != nil {
				release()
				if _, err := io.CopyN(io.Discard, r, q.size-read); err != nil {
					return nil, err
				}
				return nil, &allocError{err}
			}
			held = append(held, free)
			if _, err := io.ReadFull(r, buf); err != nil {
				release()
				return nil, err
			}
			cut(entries[i:i+n], q.parts[i:i+n], buf)
		}
		read += int64(bytes)
		i += n
	}
	if trusted {
		return release, nil
	}
	for i, e := range entries {
		if crc := crc32.Checksum(e.Data, castagnoli); crc != q.parts[i].crc {
			release()
			return nil, fmt.Errorf("%w: entry %d of group %d was damaged on the way: CRC is %08x, not %08x", errMalformed, e.Index, q.group, crc, q.parts[i].crc)
		}
	}
	return release, nil
}

// run counts the parts at the front that share space, and their bytes.
func run(parts []part) (n, bytes int) {
	for n < len(parts) && (n == 0 || parts[0].n < ownSpace && parts[n].n < ownSpace) {
		bytes += parts[n].n
		n++
	}
	return n, bytes
}

// cut hands each entry its piece of buf.
func cut(entries []*raft.Log, parts []part, buf []byte) {
	for i, e := range entries {
		if n := parts[i].n; n > 0 {
			e.Data, buf = buf[:n:n], buf[n:]
		}
	}
}
