package snapshot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

// TestGolden pins the three formats byte by byte.
func TestGolden(t *testing.T) {
	dir := tempDir(t)
	s := mustOpen(t, Config{Dir: dir})
	k := begin(t, s, 7)
	for _, err := range []error{
		k.WriteHead([]byte("the head")),
		k.WritePage(1, []byte("page one")),
		k.WritePage(1<<40, nil),
		k.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, in, err := s.Open(k.ID())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "stream", stream)
	for _, name := range []string{"manifest-00000000000000000001", "pages-00000001"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, strings.Split(name, "-")[0], b)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path, text := filepath.Join("testdata", name+".hex"), hex.Dump(got)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: the format has changed. Got\n%s", name, text)
	}
}

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func sampleStream() []byte {
	b := appendBegin(nil)
	chain := chainCRC(0, le.Uint32(b[16:]))
	for i, data := range []string{"head", "a", ""} {
		kind, id := Page, uint64(i)
		if i == 0 {
			kind = Head
		}
		chain = chainCRC(chain, recordCRC(kind, id, []byte(data)))
		b = appendRecord(b, kind, id, []byte(data))
	}
	return appendEnd(b, 2, uint64(len(b)), chain)
}

// TestForgedRecords swaps whole records, each with its own right CRC.
func TestForgedRecords(t *testing.T) {
	if c, err := parse(bytes.NewReader(sampleStream())); err != nil || len(c.pages) != 2 {
		t.Fatalf("%v, %v", c, err)
	}
	page := appendRecord(nil, Page, 1, []byte("a"))
	for name, forged := range map[string][]byte{
		"other data": appendRecord(nil, Page, 1, []byte("b")),
		"other id":   appendRecord(nil, Page, 0, []byte("a")),
		"dropped":    nil,
		"twice":      append(bytes.Clone(page), page...),
		"a head":     appendRecord(nil, Head, 0, []byte("a")),
		"an end":     sampleStream()[len(sampleStream())-recordHeader-endData:],
	} {
		if _, err := parse(bytes.NewReader(bytes.Replace(sampleStream(), page, forged, 1))); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// FuzzStream demands that the pull and the push form of the decoder agree.
func FuzzStream(f *testing.F) {
	whole := sampleStream()
	f.Add(whole, uint8(1))
	f.Add(whole[:len(whole)-3], uint8(5))
	f.Add(append(bytes.Clone(whole), 'x'), uint8(5))
	f.Add([]byte{255, 255, 255, 15, 1, 0, 0, 0}, uint8(9))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		pulled, pullErr := parse(bytes.NewReader(in))
		pushed := content{pages: map[uint64]string{}}
		p := &parser{emit: func(kind Kind, id uint64, data []byte) error {
			if kind == Head {
				pushed.head = string(data)
			} else {
				pushed.pages[id] = string(data)
			}
			return nil
		}}
		var pushErr error
		for rest := in; len(rest) > 0 && pushErr == nil && !p.check.done(); {
			n := min(len(rest), int(piece)+1)
			if p.check.last == kindEnd {
				break
			}
			pushErr = p.write(rest[:n])
			rest = rest[n:]
		}
		if pushErr == nil && !p.check.done() {
			pushErr = errors.New("ends early")
		}
		trailing := pushErr != nil && strings.Contains(pushErr.Error(), "follow the end")
		if (pullErr == nil) != (pushErr == nil) && !trailing {
			t.Fatalf("pull says %v, push says %v", pullErr, pushErr)
		}
		if pullErr == nil && !pulled.equal(pushed) {
			t.Fatalf("pull gave %v, push gave %v", pulled, pushed)
		}
	})
}

func FuzzManifest(f *testing.F) {
	m := &manifest{seq: 5, head: entry{file: 1, off: 16, n: 4}, pages: []entry{{id: 3, file: 1, off: 20, n: 2}, {id: 4, file: 2, off: 16}}}
	m.meta.Version, m.meta.Configuration = 1, testConfiguration()
	m.meta.Size = streamSize(4, 2, 2)
	b, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Add(b[:60], true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) > 4 { // let mutations get past the CRC
			b = append(b[:len(b)-4:len(b)-4], 0, 0, 0, 0)
			le.PutUint32(b[len(b)-4:], crcOf(b[:len(b)-4]))
		}
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("decoded and encoded again it differs: %v", err)
		}
	})
}
