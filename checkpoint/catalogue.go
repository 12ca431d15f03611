package checkpoint

import "sync"

// catalogue is an index of chunks: which pack has one, where, and how many pages
// of the parts it knows of need it. It is a cache: what it says is checked
// before it is used, and a part it does not know of costs a scan.
type catalogue interface {
	// find says where a chunk is.
	find(s sum) (pack string, at place, ok bool)
	// has reports whether a part is in it.
	has(part string) bool
	// add counts the chunks of a part.
	add(part string, p *partFile)
	// remove takes a part out that was added.
	remove(part string, p *partFile)
	// sweep takes out the parts and packs that are not among the files.
	sweep(files map[string]bool)
	close() error
}

// memoryCatalogue is the one without a folder.
type memoryCatalogue struct {
	mu     sync.Mutex
	chunks map[sum]counted
	parts  map[string]bool
	packs  []string
	number map[string]uint32
}

type counted struct {
	pack, n, refs uint32
	off           int64
}

func newMemoryCatalogue() *memoryCatalogue {
	return &memoryCatalogue{chunks: map[sum]counted{}, parts: map[string]bool{}, number: map[string]uint32{}}
}

func (c *memoryCatalogue) find(s sum) (string, place, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.chunks[s]
	if !ok {
		return "", place{}, false
	}
	return c.packs[k.pack], place{n: k.n, off: k.off, sum: s}, true
}

func (c *memoryCatalogue) has(part string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[part]
}

func (c *memoryCatalogue) add(part string, p *partFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts[part] {
		return
	}
	c.parts[part] = true
	p.chunks(func(at *place) {
		name := p.packs[at.pack].name
		n, known := c.number[name]
		if !known {
			n = uint32(len(c.packs))
			c.packs, c.number[name] = append(c.packs, name), n
		}
		k := counted{pack: n, n: at.n, off: at.off, refs: c.chunks[at.sum].refs} // the newest copy is the one that stays
		k.refs++
		c.chunks[at.sum] = k
	})
}

func (c *memoryCatalogue) remove(part string, p *partFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.parts[part] {
		return
	}
	delete(c.parts, part)
	p.chunks(func(at *place) {
		k, ok := c.chunks[at.sum]
		if k.refs--; ok && k.refs > 0 {
			c.chunks[at.sum] = k
			return
		}
		delete(c.chunks, at.sum)
	})
}

func (c *memoryCatalogue) sweep(files map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.parts {
		if !files[p] {
			delete(c.parts, p)
		}
	}
	for s, k := range c.chunks {
		if !files[c.packs[k.pack]] {
			delete(c.chunks, s)
		}
	}
}

func (c *memoryCatalogue) close() error { return nil }

// chunks visits the places a part names, those of pages that are gone left out.
func (p *partFile) chunks(visit func(*place)) {
	for i := range p.pages {
		if !p.pages[i].gone() {
			visit(&p.pages[i].place)
		}
	}
	for i := range p.blobs {
		for j := range p.blobs[i].pieces {
			visit(&p.blobs[i].pieces[j])
		}
	}
}
