package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	maxLine   = 16 << 20 // bytes of the longest line; a longer one is no text
	lineBuf   = 64 << 10 // bytes of the buffer to begin with
	gzipMagic = "\x1f\x8b"
	utf8BOM   = "\xef\xbb\xbf"
)

// input is the text of several files as one stream of lines, without line
// ends. It keeps at most one file open.
type input struct {
	paths []string
	file  int // index of the open file, or of the next one to open
	open  *os.File
	src   *counter  // what is read of the open file, before decompression
	text  io.Reader // what it says, nil if no file is open

	buf        []byte // buf[start:end] is read and not yet yielded
	start, end int
	afterCR    bool // the last line ended in CR: a LF now belongs to it
	ended      bool // the last line had an end
	line       int  // number of the last line yielded
	rows       int  // rows of this file
	bytes      int64
}

// counter counts what passes.
type counter struct {
	r io.Reader
	n *int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.n += int64(n)
	return n, err
}

func newInput(paths []string) *input {
	return &input{paths: paths, buf: make([]byte, lineBuf)}
}

// advance opens the next file if none is open, or returns io.EOF after the last.
func (l *input) advance() error {
	if l.text != nil {
		return nil
	}
	if l.file == len(l.paths) {
		return io.EOF
	}
	return l.openFile()
}

// next returns the next line of the open file, valid until the call after, or
// io.EOF after its last.
func (l *input) next() ([]byte, error) {
	line, err := l.cut()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read data file %s after line %d: %w", l.path(), l.line, explain(err))
	}
	l.line++
	if l.line == 1 {
		line = bytes.TrimPrefix(line, []byte(utf8BOM))
	}
	return line, nil
}

// lineEnd returns the end of the line that next gave last, as it is in the
// file. It may move the buffer: the line is no longer valid.
func (l *input) lineEnd() (string, error) {
	switch {
	case !l.ended:
		return "", nil
	case !l.afterCR:
		return "\n", nil
	}
	if l.start == l.end {
		if err := l.fill(); errors.Is(err, io.EOF) {
			return "\r", nil
		} else if err != nil {
			return "", fmt.Errorf("read data file %s after line %d: %w", l.path(), l.line, explain(err))
		}
	}
	if l.buf[l.start] != '\n' {
		return "\r", nil
	}
	l.start++
	l.afterCR = false
	return "\r\n", nil
}

// unread puts lines that next gave back in front of what is to come.
func (l *input) unread(text []byte, lines int) {
	rest := append(bytes.Clone(text), l.buf[l.start:l.end]...)
	if len(rest) > len(l.buf) {
		l.buf = rest[:cap(rest)]
	} else {
		copy(l.buf, rest)
	}
	l.start, l.end = 0, len(rest)
	l.line -= lines
	l.afterCR = l.afterCR && len(text) == 0
}

// path names the file of the last line yielded.
func (l *input) path() string { return l.paths[min(l.file, len(l.paths)-1)] }

// openFile opens the next file and looks whether it is compressed.
func (l *input) openFile() error {
	path := l.paths[l.file]
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open data file: %w", err)
	}
	l.open, l.src = f, &counter{r: f, n: &l.bytes}
	l.start, l.end, l.line, l.rows, l.afterCR, l.ended = 0, 0, 0, 0, false, false
	plain := bufio.NewReaderSize(l.src, lineBuf)
	l.text = plain
	magic, err := plain.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read data file %s: %w", path, err)
	}
	if string(magic) != gzipMagic {
		return nil
	}
	if l.text, err = gzip.NewReader(plain); err != nil {
		return fmt.Errorf("read data file %s: %w", path, explain(err))
	}
	return nil
}

// explain says what the errors of package gzip mean for a file.
func explain(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("gzip data is truncated: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("bytes that are no gzip member: %w", err)
	}
	return err
}

// finish ends the open file, which must have had a row.
func (l *input) finish() error {
	path, rows := l.path(), l.rows
	if err := l.close(); err != nil {
		return err
	}
	l.file++
	if rows == 0 {
		return fmt.Errorf("read data file %s: it has no rows", path)
	}
	return nil
}

// close releases the open file, if any.
func (l *input) close() error {
	f := l.open
	l.open, l.text = nil, nil
	if f == nil {
		return nil
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close data file: %w", err)
	}
	return nil
}

// cut takes one line off the buffer, filling it as needed; io.EOF after the last.
func (l *input) cut() ([]byte, error) {
	scanned := 0 // bytes of the line known to hold no line end
	for {
		if l.afterCR && l.start < l.end {
			l.afterCR = false
			if l.buf[l.start] == '\n' {
				l.start++
			}
		}
		have := l.buf[l.start:l.end]
		if i := findLineEnd(have[scanned:]); i >= 0 {
			line := have[:scanned+i]
			l.start += len(line) + 1
			l.afterCR, l.ended = have[len(line)] == '\r', true
			return line, l.checkLength(line)
		}
		scanned = len(have)
		if err := l.checkLength(have); err != nil {
			return nil, err
		}
		err := l.fill()
		if errors.Is(err, io.EOF) && scanned > 0 {
			have = l.buf[l.start:l.end] // fill may have moved it
			l.start, l.ended = l.end, false
			return have, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// findLineEnd returns the position of the first LF or CR in b, or -1.
func findLineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (l *input) checkLength(line []byte) error {
	if len(line) <= maxLine {
		return nil
	}
	return fmt.Errorf("line %d is longer than %d MiB: is this a text file?", l.line+1, maxLine>>20)
}

// fill reads more behind what the buffer holds, moving or growing it for room.
func (l *input) fill() error {
	if l.end == len(l.buf) {
		into := l.buf
		if l.start < len(l.buf)/2 {
			into = make([]byte, 2*len(l.buf))
		}
		l.end = copy(into, l.buf[l.start:l.end])
		l.buf, l.start = into, 0
	}
	for range 100 {
		n, err := l.text.Read(l.buf[l.end:])
		l.end += n
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
