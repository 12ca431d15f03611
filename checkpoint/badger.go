package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"
)

// Keys of the catalogue, by their first byte. Every value is framed by seal.
const (
	chunkKey = 'c' // and the SHA-256 of a chunk: pack u32, bytes u32, offset u64, references u32
	packKey  = 'k' // and the number of a pack, u32 big endian: its name
	partKey  = 'p' // and the name of a part that was added: nothing
)

const chunkValue = 20

// badgerCatalogue is the catalogue on disk. It is a cache, so that what fails in
// it is logged and costs only that chunks are written again.
type badgerCatalogue struct {
	db     *badger.DB
	folder string
	lock   *os.File
	log    *slog.Logger
	failed atomic.Bool   // from then on it is empty; close removes it
	turn   chan struct{} // held while parts are added or taken out

	mu     sync.RWMutex // guards the rest; never held over I/O
	packs  map[uint32]string
	number map[string]uint32
	next   uint32
	parts  map[string]bool
}

// load fills the books.
func (c *badgerCatalogue) load() error {
	c.packs, c.number, c.parts, c.next = map[uint32]string{}, map[string]uint32{}, map[string]bool{}, 0
	return c.db.View(func(txn *badger.Txn) error {
		err := each(txn, packKey, func(key, value []byte) error {
			if len(key) != 5 {
				return fmt.Errorf("the key of a pack has %d bytes", len(key))
			}
			n, name := binary.BigEndian.Uint32(key[1:]), string(value)
			c.packs[n], c.number[name] = name, n
			c.next = max(c.next, n+1)
			return nil
		})
		if err != nil {
			return err
		}
		return each(txn, partKey, func(key, _ []byte) error {
			c.parts[string(key[1:])] = true
			return nil
		})
	})
}

// each visits the values of a kind.
func each(txn *badger.Txn, kind byte, visit func(key, value []byte) error) error {
	it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 100, Prefix: []byte{kind}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		key := item.KeyCopy(nil)
		raw, err := item.ValueCopy(nil)
		if err == nil {
			raw, err = unseal(key, raw)
		}
		if err == nil {
			err = visit(key, raw)
		}
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	return nil
}

// fail makes the catalogue an empty one.
func (c *badgerCatalogue) fail(err error) {
	if !c.failed.Swap(true) {
		c.log.Error("the catalogue of chunks failed; chunks are written again until it is opened anew", "dir", c.folder, "err", err)
	}
}

func (c *badgerCatalogue) find(s sum) (string, place, bool) {
	var k counted
	err := c.db.View(func(txn *badger.Txn) (err error) {
		k, err = chunkIn(txn, append([]byte{chunkKey}, s[:]...))
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) || c.failed.Load() {
		return "", place{}, false
	}
	if err != nil {
		c.fail(err)
		return "", place{}, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	name, ok := c.packs[k.pack]
	return name, place{n: k.n, off: k.off, sum: s}, ok
}

func chunkIn(txn *badger.Txn, key []byte) (k counted, err error) {
	item, err := txn.Get(key)
	if err != nil {
		return k, err
	}
	raw, err := item.ValueCopy(nil)
	if err == nil {
		raw, err = unseal(key, raw)
	}
	if err == nil && len(raw) != chunkValue {
		err = fmt.Errorf("a chunk of %d bytes", len(raw))
	}
	if err != nil {
		return k, fmt.Errorf("key %x: %w", key, err)
	}
	return counted{pack: le.Uint32(raw), n: le.Uint32(raw[4:]), off: int64(le.Uint64(raw[8:])), refs: le.Uint32(raw[16:])}, nil
}

func (k counted) encode() []byte {
	b := le.AppendUint32(make([]byte, 0, chunkValue), k.pack)
	b = le.AppendUint32(b, k.n)
	b = le.AppendUint64(b, uint64(k.off))
	return le.AppendUint32(b, k.refs)
}

func (c *badgerCatalogue) has(part string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.parts[part]
}

func (c *badgerCatalogue) add(part string, p *partFile) { c.change(part, true, p) }

func (c *badgerCatalogue) remove(part string, p *partFile) { c.change(part, false, p) }

// change adds or removes a part.
func (c *badgerCatalogue) change(part string, add bool, p *partFile) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.failed.Load() || c.has(part) == add {
		return
	}
	err := c.count(p, add)
	if err == nil {
		key := append([]byte{partKey}, part...)
		err = c.db.Update(func(txn *badger.Txn) error {
			if add {
				return txn.Set(key, seal(key, nil))
			}
			return txn.Delete(key)
		})
	}
	if err != nil {
		c.fail(fmt.Errorf("part %s: %w", part, err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if add {
		c.parts[part] = true
	} else {
		delete(c.parts, part)
	}
}

// count changes the references of a part's chunks, in the order of their keys.
func (c *badgerCatalogue) count(p *partFile, add bool) error {
	numbers := make([]uint32, len(p.packs))
	for i := range p.packs {
		n, err := c.pack(p.packs[i].name)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	all := make([]*place, 0, len(p.pages))
	p.chunks(func(at *place) { all = append(all, at) })
	slices.SortFunc(all, func(a, b *place) int { return cmp.Or(bytes.Compare(a.sum[:], b.sum[:]), cmp.Compare(a.off, b.off)) })
	batch := c.db.NewWriteBatch()
	defer batch.Cancel()
	txn := c.db.NewTransaction(false)
	defer txn.Discard()
	for len(all) > 0 {
		at, same := all[0], uint32(1)
		for int(same) < len(all) && all[same].sum == at.sum {
			same++
		}
		all = all[same:]
		key := append([]byte{chunkKey}, at.sum[:]...)
		k, err := chunkIn(txn, key)
		switch {
		case err != nil && !errors.Is(err, badger.ErrKeyNotFound):
			return err
		case add: // the newest copy is the one that stays
			k = counted{pack: numbers[at.pack], n: at.n, off: at.off, refs: k.refs + same}
			err = batch.Set(key, seal(key, k.encode()))
		case k.refs > same:
			k.refs -= same
			err = batch.Set(key, seal(key, k.encode()))
		default:
			err = batch.Delete(key)
		}
		if err != nil {
			return err
		}
	}
	return batch.Flush()
}

// pack gives a pack its number.
func (c *badgerCatalogue) pack(name string) (uint32, error) {
	c.mu.RLock()
	n, ok := c.number[name]
	next := c.next
	c.mu.RUnlock()
	if ok {
		return n, nil
	}
	key := binary.BigEndian.AppendUint32([]byte{packKey}, next)
	if err := c.db.Update(func(txn *badger.Txn) error { return txn.Set(key, seal(key, []byte(name))) }); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packs[next], c.number[name] = name, next
	c.next++
	return next, nil
}

func (c *badgerCatalogue) sweep(files map[string]bool) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.failed.Load() {
		return
	}
	if err := c.clear(files); err != nil {
		c.fail(fmt.Errorf("sweep: %w", err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.parts {
		if !files[p] {
			delete(c.parts, p)
		}
	}
	for n, name := range c.packs {
		if !files[name] {
			delete(c.packs, n)
			delete(c.number, name)
		}
	}
}

// clear deletes what is about files that are gone. Packs, by whose numbers chunks
// are told apart, go last.
func (c *badgerCatalogue) clear(files map[string]bool) error {
	c.mu.RLock()
	gone := map[uint32]bool{}
	for n, name := range c.packs {
		if !files[name] {
			gone[n] = true
		}
	}
	var parts []string
	for p := range c.parts {
		if !files[p] {
			parts = append(parts, p)
		}
	}
	c.mu.RUnlock()
	batch := c.db.NewWriteBatch()
	defer batch.Cancel()
	for _, p := range parts {
		if err := batch.Delete(append([]byte{partKey}, p...)); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		err := c.db.View(func(txn *badger.Txn) error {
			return each(txn, chunkKey, func(key, value []byte) error {
				if len(value) == chunkValue && gone[le.Uint32(value)] {
					return batch.Delete(key)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	return c.db.Update(func(txn *badger.Txn) error {
		for n := range gone {
			if err := txn.Delete(binary.BigEndian.AppendUint32([]byte{packKey}, n)); err != nil {
				return err
			}
		}
		return nil
	})
}

// seal frames a value: length u32, CRC-32C u32 over key and value, value. Badger's
// own checks miss damage.
func seal(key, value []byte) []byte {
	b := le.AppendUint32(make([]byte, 0, 8+len(value)), uint32(len(value)))
	b = le.AppendUint32(b, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value))
	return append(b, value...)
}

// unseal checks a value that was read under key.
func unseal(key, b []byte) ([]byte, error) {
	if len(b) < 8 || int64(le.Uint32(b)) != int64(len(b)-8) {
		return nil, fmt.Errorf("a value of %d bytes does not have the length it says", len(b))
	}
	if got, want := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[8:]), le.Uint32(b[4:]); got != want {
		return nil, fmt.Errorf("the CRC of a value is %08x, it says %08x", got, want)
	}
	return b[8:], nil
}

// catalogueLogger hands Badger's log to slog; what Badger calls an error ends the
// catalogue.
type catalogueLogger struct{ c *badgerCatalogue }

func (l catalogueLogger) Errorf(format string, args ...any) {
	l.c.fail(errors.New(strings.TrimSpace(fmt.Sprintf(format, args...))))
}

func (l catalogueLogger) Warningf(format string, args ...any) {
	l.c.log.Warn("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l catalogueLogger) Infof(format string, args ...any) {
	l.c.log.Debug("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l catalogueLogger) Debugf(string, ...any) {}
