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

// lines yields the non-blank lines of several files as one stream, without
// comments and line ends, and keeps at most one file open.
type lines struct {
	paths []string
	file  int // index of the open file, or of the next one to open
	open  *os.File
	src   *counter  // what is read of the open file, before decompression
	text  io.Reader // what it says, nil if no file is open

	buf        []byte // buf[start:end] is read and not yet yielded
	start, end int
	afterCR    bool // the last line ended in CR: a LF now belongs to it
	line       int  // number of the last line yielded
	rows       int  // lines yielded of this file
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

func newLines(paths []string) *lines {
	return &lines{paths: paths, buf: make([]byte, lineBuf)}
}

// next returns the next line that says something, valid until the call after,
// or io.EOF after the last file.
func (l *lines) next() ([]byte, error) {
	for {
		if l.text == nil {
			if l.file == len(l.paths) {
				return nil, io.EOF
			}
			if err := l.openFile(); err != nil {
				return nil, err
			}
		}
		line, err := l.cut()
		if errors.Is(err, io.EOF) {
			if err := l.finish(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read data file %s after line %d: %w", l.path(), l.line, explain(err))
		}
		l.line++
		if l.line == 1 {
			line = bytes.TrimPrefix(line, []byte(utf8BOM))
		}
		if i := bytes.IndexByte(line, '#'); i >= 0 {
			line = line[:i]
		}
		if len(bytes.TrimLeft(line, " \t")) > 0 {
			l.rows++
			return line, nil
		}
	}
}

// path names the file of the last line yielded.
func (l *lines) path() string { return l.paths[min(l.file, len(l.paths)-1)] }

// openFile opens the next file and looks whether it is compressed.
func (l *lines) openFile() error {
	path := l.paths[l.file]
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open data file: %w", err)
	}
	l.open, l.src = f, &counter{r: f, n: &l.bytes}
	l.start, l.end, l.line, l.rows, l.afterCR = 0, 0, 0, 0, false
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
func (l *lines) finish() error {
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
func (l *lines) close() error {
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
func (l *lines) cut() ([]byte, error) {
	scanned := 0 // bytes of the line known to hold no line end
	for {
		if l.afterCR && l.start < l.end {
			l.afterCR = false
			if l.buf[l.start] == '\n' {
				l.start++
			}
		}
		have := l.buf[l.start:l.end]
		if i := lineEnd(have[scanned:]); i >= 0 {
			line := have[:scanned+i]
			l.start += len(line) + 1
			l.afterCR = have[len(line)] == '\r'
			return line, l.checkLength(line)
		}
		scanned = len(have)
		if err := l.checkLength(have); err != nil {
			return nil, err
		}
		err := l.fill()
		if errors.Is(err, io.EOF) && scanned > 0 {
			l.start = l.end
			return have, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// lineEnd returns the position of the first LF or CR in b, or -1.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (l *lines) checkLength(line []byte) error {
	if len(line) <= maxLine {
		return nil
	}
	return fmt.Errorf("line %d is longer than %d MiB: is this a text file?", l.line+1, maxLine>>20)
}

// fill reads more behind what the buffer holds, moving or growing it for room.
func (l *lines) fill() error {
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
