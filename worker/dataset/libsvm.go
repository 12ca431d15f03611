package dataset

// libsvmRow parses `label index:value ...` with rising indices.
func libsvmRow(rule Label) func(line []byte, dst *rows) *RowError {
	return func(line []byte, dst *rows) *RowError { return parseSingle(line, dst, rule, true) }
}

// libfmRow parses the same in any order of indices.
func libfmRow(rule Label) func(line []byte, dst *rows) *RowError {
	return func(line []byte, dst *rows) *RowError { return parseSingle(line, dst, rule, false) }
}

// parseSingle appends the row of a line to dst, with one bag; of a malformed
// line it leaves a part there. Explicit zeros are dropped.
func parseSingle(line []byte, dst *rows, rule Label, rising bool) *RowError {
	at, end := field(line, 0)
	label, bad := rule.parse(line[at:end])
	if bad != "" {
		return malformed(at, line[at:end], bad)
	}
	var last uint64
	for first := true; ; first = false {
		at, end = field(line, end)
		if at == end {
			break
		}
		key, value, bad := parsePair(at, line[at:end])
		if bad != nil {
			return bad
		}
		if rising && !first && key <= last {
			return malformed(at, line[at:at+indexLen(line[at:end])], wantRising)
		}
		last = key
		if value != 0 {
			dst.add(key, value)
		}
	}
	dst.endBag()
	dst.close(label, 1)
	return nil
}

// indexLen is the length of the digits that an entry begins with.
func indexLen(entry []byte) int {
	n := 0
	for n < len(entry) && entry[n] != ':' {
		n++
	}
	return n
}
