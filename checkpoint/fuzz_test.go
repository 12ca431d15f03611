package checkpoint

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// known says whether an error of a decoder is one it may give.
func known(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion) || errors.Is(err, ErrTensor)
}

// FuzzPack reads a pack from its first byte to its last.
func FuzzPack(f *testing.F) {
	d := newMemDisk()
	w := &packWriter{disk: d, dir: "/d", stem: stem(1, 1, "s", "t"), id: 1, group: 1, limit: packLimit}
	for _, data := range []string{"a page", "another", strings.Repeat("x", 300)} {
		if _, _, err := w.add(&record{kind: chunkPage, table: 1, page: 7, n: uint32(len(data))}, []byte(data)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.seal(); err != nil {
		f.Fatal(err)
	}
	f.Add(d.files["/d/"+w.packs[0].name].data)
	f.Add(appendPackHead(nil, 1, 2))
	f.Add([]byte("hclppack"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newMemDisk()
		name := string(kindPack) + "-" + stem(1, 1, "s", "t") + "-0000"
		d.files["/d/"+name] = &memFile{data: b}
		r := newPackReader(d, "/d")
		s, err := r.source(name)
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		for off := int64(packHead); off < s.size; {
			n, err := s.verify(off, nil)
			if err != nil && !known(err) || n < 0 {
				t.Fatal(n, err)
			}
			if n == 0 {
				break
			}
			off += n
		}
		// A place from a manifest that lies.
		at := place{n: uint32(len(b)), off: packHead}
		if data, err := r.chunk(name, chunkPage, &at); err == nil && len(data) != len(b) || err != nil && !known(err) {
			t.Fatal(err)
		}
	})
}

// FuzzPart: what is decoded encodes to the same bytes.
func FuzzPart(f *testing.F) {
	p := &partFile{id: 9, group: 1, shards: 2, base: 4, packs: []packRef{{string(kindPack) + "-" + stem(9, 1, "s", "t") + "-0000", 500}}}
	p.pages = []entry{{table: 1, page: 3, place: place{n: 9, off: 32}}, {table: 1, page: 4, place: place{pack: noPack}}}
	p.blobs = []blob{{"head", 20, []place{{n: 15, off: 200}, {n: 5, off: 300}}}}
	b, err := p.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:partFixed])
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePart(b)
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		again, err := p.encode()
		if err != nil || !bytes.Equal(b, again) {
			t.Fatalf("%x became %x (%v)", b, again, err)
		}
	})
}

// FuzzManifest gives the body of a manifest its seal, so that the decoder sees what
// is in it.
func FuzzManifest(f *testing.F) {
	m := Manifest{
		Format: manifestFormat, Version: 1, ID: 3, Shards: 1, Tables: twoTables(), Base: &Base{ID: 1, SHA256: strings.Repeat("0", 64), Chain: 1},
		Parts: []Part{{Group: 1, File: string(kindPart) + "-" + stem(3, 1, "s", "t"), Bytes: 100, SHA256: strings.Repeat("a", 64), Tables: []PartTable{{ID: 1}}}},
	}
	b, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	body, _, _ := bytes.Cut(b, []byte(sealBegin))
	f.Add(body, true)
	f.Add([]byte(`{"format":"hcclps-checkpoint","version":2`), true)
	f.Fuzz(func(t *testing.T, b []byte, reseal bool) {
		if reseal {
			b = resealed(b)
		}
		m, err := decodeManifest(b)
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeManifest(again); err != nil {
			t.Fatalf("%s became %s: %v", b, again, err)
		}
	})
}

// FuzzTensors: the header of a file of tensors, and the tables made of it.
func FuzzTensors(f *testing.F) {
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"k":"v"}}`), 24)
	f.Add([]byte(`{"a.keys":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"a.values":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},"a.slots":{"dtype":"F32","shape":[1,1],"data_offsets":[16,20]}}`), 20)
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a.steps":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}}`), 8)
	f.Fuzz(func(t *testing.T, header []byte, data int) {
		if data < 0 || data > 1<<12 {
			return
		}
		b := append(le.AppendUint64(nil, uint64(len(header))), header...)
		b = append(b, make([]byte, data)...)
		tensors, begin, err := readTensors(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		i := &Import{m: describe(tensors), begin: begin, tensors: tensors}
		if err := i.check(); err != nil && !known(err) {
			t.Fatal(err)
		}
	})
}

// FuzzExportManifest: the description of an export.
func FuzzExportManifest(f *testing.F) {
	f.Add([]byte(`{"format":"hcclps-export","version":1,"tables":[{"id":1,"name":"a","dim":2,"slots":0,"rows":3,"keys":"a.keys","values":"a.values"}]}`))
	f.Add([]byte(`{"format":"hcclps-export","version":1,"tables":[{"id":1,"name":"a","shape":[4294967295,4294967295],"dim":2,"slots":0,"rows":3,"values":"a"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeExport(b)
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		i := &Import{m: m, tensors: map[string]*tensor{}}
		if err := i.check(); err != nil && !known(err) {
			t.Fatal(err)
		}
	})
}
