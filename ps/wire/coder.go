package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed is wrapped by every decoding error; the error says at which
// byte the message stopped making sense.
var ErrMalformed = errors.New("malformed message")

// coder walks the fields of a message in order, writing them or reading them:
// one `fields` method a message serves both ways, so they cannot differ.
type coder struct {
	buf  []byte // writing: what was written; reading: the whole message
	off  int    // reading: next byte
	read bool
	err  error
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: byte %d: %s", ErrMalformed, c.off, fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes when reading, or nil after a fault.
func (c *coder) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || len(c.buf)-c.off < n {
		c.fail("want %d bytes, have %d", n, len(c.buf)-c.off)
		return nil
	}
	b := c.buf[c.off : c.off+n : c.off+n]
	c.off += n
	return b
}

func (c *coder) u8(v *uint8) {
	if !c.read {
		c.buf = append(c.buf, *v)
	} else if b := c.take(1); b != nil {
		*v = b[0]
	}
}

func (c *coder) bool(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.u8(&b)
	if b > 1 {
		c.fail("bool is %d", b)
	}
	*v = b == 1
}

func (c *coder) u32(v *uint32) {
	if !c.read {
		c.buf = binary.LittleEndian.AppendUint32(c.buf, *v)
	} else if b := c.take(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

func (c *coder) u64(v *uint64) {
	if !c.read {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, *v)
	} else if b := c.take(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (c *coder) f32(v *float32) {
	u := math.Float32bits(*v)
	c.u32(&u)
	*v = math.Float32frombits(u)
}

// bytes is a length and as many bytes; when reading, *v aliases the message.
func (c *coder) bytes(v *[]byte) {
	n := uint32(len(*v))
	c.u32(&n)
	if !c.read {
		c.buf = append(c.buf, *v...)
		return
	}
	*v = c.take(int(n))
}

func (c *coder) str(v *string) {
	b := []byte(*v)
	c.bytes(&b)
	if c.read {
		*v = string(b)
	}
}

// json codes a small structure with maps; the standard library sorts their keys,
// so equal values have equal bytes.
func (c *coder) json(v any) {
	var b []byte
	if !c.read {
		var err error
		if b, err = json.Marshal(v); err != nil {
			c.fail("%v", err)
		}
	}
	c.bytes(&b)
	if c.read && c.err == nil {
		if err := json.Unmarshal(b, v); err != nil {
			c.fail("%v", err)
		}
	}
}

// pad brings the message to a multiple of 8 bytes, so that what follows can be
// read in place as float32 and uint64.
func (c *coder) pad() {
	if !c.read {
		for len(c.buf)%8 != 0 {
			c.buf = append(c.buf, 0)
		}
		return
	}
	for _, b := range c.take((8 - c.off%8) % 8) {
		if b != 0 {
			c.fail("padding is not zero")
		}
	}
}

// list codes a count and as many elements; each takes at least min bytes, so a
// hostile count cannot make the reader allocate more than the message holds.
func list[T any](c *coder, v *[]T, minBytes int, each func(*T)) {
	n := uint32(len(*v))
	c.u32(&n)
	if c.read {
		if c.err != nil || int(n) > (len(c.buf)-c.off)/minBytes {
			c.fail("%d elements do not fit in %d bytes", n, len(c.buf)-c.off)
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		each(&(*v)[i])
	}
}

// end demands that a reader has used every byte.
func (c *coder) end() error {
	if c.read && c.err == nil && c.off != len(c.buf) {
		c.fail("%d bytes left over", len(c.buf)-c.off)
	}
	return c.err
}
