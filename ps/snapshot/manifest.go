package snapshot

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"

	"github.com/hashicorp/raft"

	"hcclps/ps/corrupt"
)

const (
	manifestMagic   = "hclpmani"
	manifestVersion = 1
	manifestFixed   = 56 // bytes before the servers
	entryBytes      = 28
)

// entry says where the payload of a page, or of the head, is.
type entry struct {
	id   uint64
	off  int64
	file uint32
	n    uint32
	crc  uint32 // of its stream record
}

// manifest is one snapshot. It does not change once it is in Store.snaps.
type manifest struct {
	seq   uint64
	meta  raft.SnapshotMeta
	head  entry
	pages []entry  // ids ascending
	needs []uint32 // the page files, ascending; set by index
}

func snapshotID(term, index, seq uint64) string { return fmt.Sprintf("%d-%d-%d", term, index, seq) }

// index sets needs once head and pages are known.
func (m *manifest) index() {
	seen := map[uint32]bool{m.head.file: true}
	last := m.head.file // runs are long: the map is asked where they end
	for i := range m.pages {
		if f := m.pages[i].file; f != last {
			seen[f], last = true, f
		}
	}
	m.needs = slices.Sorted(maps.Keys(seen))
}

// newer orders snapshots as raft does: by term, then index; the number settles the rest.
func newer(a, b *manifest) int {
	for _, p := range [][2]uint64{{a.meta.Term, b.meta.Term}, {a.meta.Index, b.meta.Index}, {a.seq, b.seq}} {
		if p[0] != p[1] {
			if p[0] > p[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}

func (m *manifest) encode() ([]byte, error) {
	servers := m.meta.Configuration.Servers
	if len(servers) > math.MaxUint16 {
		return nil, fmt.Errorf("encode manifest: %d servers", len(servers))
	}
	b := make([]byte, 0, manifestFixed+64*len(servers)+entryBytes*(len(m.pages)+1)+12)
	b = append(b, manifestMagic...)
	b = le.AppendUint32(b, manifestVersion)
	for _, v := range []uint64{m.seq, m.meta.Index, m.meta.Term, m.meta.ConfigurationIndex, uint64(m.meta.Size)} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint16(b, uint16(m.meta.Version))
	b = le.AppendUint16(b, uint16(len(servers)))
	for _, s := range servers {
		b = append(b, byte(s.Suffrage))
		for _, text := range []string{string(s.ID), string(s.Address)} {
			if len(text) > math.MaxUint16 {
				return nil, fmt.Errorf("encode manifest: a server's name of %d bytes", len(text))
			}
			b = append(le.AppendUint16(b, uint16(len(text))), text...)
		}
	}
	b = appendEntry(b, &m.head)
	b = le.AppendUint64(b, uint64(len(m.pages)))
	for i := range m.pages {
		b = appendEntry(b, &m.pages[i])
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

func appendEntry(b []byte, e *entry) []byte {
	b = le.AppendUint64(b, e.id)
	b = le.AppendUint32(b, e.file)
	b = le.AppendUint64(b, uint64(e.off))
	b = le.AppendUint32(b, e.n)
	return le.AppendUint32(b, e.crc)
}

// cursor reads fields and remembers that there were too few bytes.
type cursor struct {
	b    []byte
	off  int
	fail bool
}

func (c *cursor) take(n int) []byte {
	if c.fail || n > len(c.b)-c.off {
		c.fail = true
		return make([]byte, min(n, 8))
	}
	c.off += n
	return c.b[c.off-n : c.off]
}

func (c *cursor) u8() uint8   { return c.take(1)[0] }
func (c *cursor) u16() uint16 { return le.Uint16(c.take(2)) }
func (c *cursor) u32() uint32 { return le.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return le.Uint64(c.take(8)) }

func (c *cursor) text() string {
	n := int(c.u16())
	if b := c.take(n); !c.fail {
		return string(b)
	}
	return ""
}

func (c *cursor) entry() entry {
	return entry{id: c.u64(), file: c.u32(), off: int64(c.u64()), n: c.u32(), crc: c.u32()}
}

// decodeManifest checks everything that can be checked without the page files. Its error is a *corrupt.Error without a file's name.
func decodeManifest(b []byte) (*manifest, error) {
	bad := func(at int, format string, args ...any) (*manifest, error) {
		return nil, &corrupt.Error{Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < manifestFixed+4 || string(b[:8]) != manifestMagic {
		return bad(0, "not a manifest")
	}
	if v := le.Uint32(b[8:]); v != manifestVersion {
		return bad(8, "format version %d, this program reads %d", v, manifestVersion)
	}
	body := b[:len(b)-4]
	if crc, want := crc32.Checksum(body, castagnoli), le.Uint32(b[len(body):]); crc != want {
		return bad(len(body), "CRC is %08x, the file says %08x", crc, want)
	}
	c := &cursor{b: body, off: 12}
	m := &manifest{seq: c.u64()}
	m.meta.Index, m.meta.Term, m.meta.ConfigurationIndex, m.meta.Size = c.u64(), c.u64(), c.u64(), int64(c.u64())
	m.meta.Version = raft.SnapshotVersion(c.u16())
	for range c.u16() {
		s := raft.Server{Suffrage: raft.ServerSuffrage(c.u8())}
		s.ID, s.Address = raft.ServerID(c.text()), raft.ServerAddress(c.text())
		if c.fail {
			return bad(c.off, "the list of servers ends early")
		}
		m.meta.Configuration.Servers = append(m.meta.Configuration.Servers, s)
	}
	m.head = c.entry()
	count := c.u64()
	if c.fail || count > math.MaxInt32 || int64(count)*entryBytes != int64(len(body)-c.off) {
		return bad(c.off, "%d pages in %d bytes", count, len(body)-c.off)
	}
	m.pages = make([]entry, count)
	bytes := int64(0)
	for i := range m.pages {
		m.pages[i] = c.entry()
		bytes += int64(m.pages[i].n)
		if i > 0 && m.pages[i].id <= m.pages[i-1].id {
			return bad(c.off-entryBytes, "page %d follows page %d", m.pages[i].id, m.pages[i-1].id)
		}
	}
	if size := streamSize(int(m.head.n), len(m.pages), bytes); size != m.meta.Size {
		return bad(44, "the stream has %d bytes, the file says %d", size, m.meta.Size)
	}
	m.meta.ID = snapshotID(m.meta.Term, m.meta.Index, m.seq)
	m.index()
	return m, nil
}
