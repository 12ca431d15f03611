package cold

import "sync"

// buffers are kept for the next call: the heap of a server with cold rows is small, and garbage of megabytes a batch would have the collector run all the
// time.
type buffers struct{ pool sync.Pool }

// get gives at least n bytes, of any content.
func (b *buffers) get(n int) *[]byte {
	if have, _ := b.pool.Get().(*[]byte); have != nil && cap(*have) >= n {
		*have = (*have)[:n]
		return have
	}
	made := make([]byte, n)
	return &made
}

func (b *buffers) put(buf *[]byte) { b.pool.Put(buf) }

// list is room for what one call reads.
type list struct {
	units []wanted
	keys  []byte
}
