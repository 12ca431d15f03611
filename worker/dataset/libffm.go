package dataset

import (
	"bytes"
	"strconv"
)

// maxFields bounds the field numbers of a libffm file: beyond it the file is
// something else.
const maxFields = 4096

// ffmEntry is an entry of a libffm row.
type ffmEntry struct {
	key   uint64
	value float32
}

// libffm parses `label field:index:value ...`: each field is a feature. Entries
// may come in any order; those of a field keep theirs. Explicit zeros are
// dropped.
type libffm struct {
	rule Label
	bag  []int        // bag of a field; -1: the field is not asked for
	open bool         // fields may be new: they are only counted
	bags [][]ffmEntry // the row under way
}

func (l *libffm) row(line []byte, dst *rows) *RowError {
	at, end := field(line, 0)
	label, bad := l.rule.parse(line[at:end])
	if bad != "" {
		return malformed(at, line[at:end], bad)
	}
	for i := range l.bags {
		l.bags[i] = l.bags[i][:0]
	}
	for {
		at, end = field(line, end)
		if at == end {
			break
		}
		entry := line[at:end]
		colon := bytes.IndexByte(entry, ':')
		if colon < 0 {
			return malformed(at, entry, wantTriple)
		}
		f, bad := l.field(at, entry[:colon])
		if bad != nil {
			return bad
		}
		key, value, bad := parsePair(at+colon+1, entry[colon+1:])
		if bad != nil {
			return bad
		}
		if b := l.bag[f]; b >= 0 && value != 0 {
			l.bags[b] = append(l.bags[b], ffmEntry{key, value})
		}
	}
	for _, bag := range l.bags {
		for _, e := range bag {
			dst.add(e.key, e.value)
		}
		dst.endBag()
	}
	dst.close(label, 1)
	return nil
}

// field reads a field number and makes sure that it is known.
func (l *libffm) field(at int, b []byte) (int, *RowError) {
	n, ok := parseIndex(b)
	if !ok || n >= maxFields {
		return 0, malformed(at, b, "a field number below "+strconv.Itoa(maxFields))
	}
	if int(n) >= len(l.bag) {
		if !l.open {
			return 0, malformed(at, b, "a field that the schema or the first "+strconv.Itoa(sampleRows)+" rows name, the largest being "+strconv.Itoa(len(l.bag)-1))
		}
		for int(n) >= len(l.bag) {
			l.bag = append(l.bag, -1)
		}
	}
	return int(n), nil
}
