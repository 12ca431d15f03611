package link

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Limits of what is read before a hello is verified.
const (
	maxHello = 4 << 10 // bytes after the length
	maxName  = 255     // bytes of a cluster or id
)

// helloMagic begins both messages, so that a stray client of another protocol is told apart from a wrong version. It and the version
// after it stay where they are in every version.
const helloMagic = "hclp"

// Verdict codes. On the wire.
const (
	codeWelcome uint8 = iota
	codeVersion
	codeCluster
	codeRecipient
	codeMalformed
)

type verdictMsg struct {
	version           uint16
	code              uint8
	cluster, id, info string
	text              string
}

// encodeHello makes: u32 length of the rest, "hclp", u16 version, u8 purpose, u64 pair, u32 epoch, u8 stripe, u8
// stripes, then cluster, from, to and info, each a u16 length and bytes.
func encodeHello(h Hello) ([]byte, error) {
	for _, name := range []string{h.Cluster, h.From, h.To} {
		if len(name) > maxName {
			return nil, fmt.Errorf("encode hello: name %.40q... has %d bytes, at most %d: %w", name, len(name), maxName, ErrTooLarge)
		}
	}
	b := append(make([]byte, 4, 256), helloMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.Version)
	b = append(b, byte(h.Purpose))
	b = binary.LittleEndian.AppendUint64(b, h.Pair)
	b = binary.LittleEndian.AppendUint32(b, h.Epoch)
	b = append(b, h.Stripe, h.Stripes)
	for _, s := range []string{h.Cluster, h.From, h.To, clip(h.Info)} {
		b = appendString(b, s)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// decodeHello is the inverse of encodeHello, without the length. Of another version it returns the version and ErrVersion.
func decodeHello(b []byte) (Hello, error) {
	d := fields{b: b}
	if magic := string(d.bytes(len(helloMagic))); magic != helloMagic {
		return Hello{}, fmt.Errorf("decode hello: begins with %q, want %q: %w", magic, helloMagic, ErrMalformed)
	}
	h := Hello{Version: d.u16()}
	if d.err == nil && h.Version != Version {
		return h, fmt.Errorf("decode hello: version %d: %w", h.Version, ErrVersion)
	}
	h.Purpose = Purpose(d.u8())
	h.Pair, h.Epoch, h.Stripe, h.Stripes = d.u64(), d.u32(), d.u8(), d.u8()
	h.Cluster, h.From, h.To, h.Info = d.str(maxName), d.str(maxName), d.str(maxName), d.str(maxText)
	if err := d.end(); err != nil {
		return Hello{}, fmt.Errorf("decode hello: %w", err)
	}
	if h.Purpose < Control || h.Purpose > Upgrade {
		return Hello{}, fmt.Errorf("decode hello: unknown purpose %d: %w", h.Purpose, ErrMalformed)
	}
	if !h.stripesFit() {
		return Hello{}, fmt.Errorf("decode hello: %s connection is stripe %d of %d of epoch %d: %w", h.Purpose, h.Stripe, h.Stripes, h.Epoch, ErrMalformed)
	}
	return h, nil
}

// stripesFit says whether epoch and stripes are such as the purpose has.
func (h Hello) stripesFit() bool {
	switch h.Purpose {
	case Bulk:
		return h.Stripe < h.Stripes && h.Stripes <= maxStripes
	case Upgrade:
		return h.Stripe == 0 && h.Stripes == 1
	default:
		return h.Epoch == 0 && h.Stripe == 0 && h.Stripes == 0
	}
}

// encodeVerdict makes: u32 length of the rest, "hclp", u16 version, u8 code, then cluster, id, info and text as in a hello.
func encodeVerdict(v verdictMsg) ([]byte, error) {
	if len(v.cluster) > maxName || len(v.id) > maxName {
		return nil, fmt.Errorf("encode verdict: cluster or id over %d bytes: %w", maxName, ErrTooLarge)
	}
	b := append(make([]byte, 4, 256), helloMagic...)
	b = binary.LittleEndian.AppendUint16(b, v.version)
	b = append(b, v.code)
	for _, s := range []string{v.cluster, v.id, clip(v.info), clip(v.text)} {
		b = appendString(b, s)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// decodeVerdict is the inverse of encodeVerdict, without the length. Its layout is the same in every version.
func decodeVerdict(b []byte) (verdictMsg, error) {
	d := fields{b: b}
	if magic := string(d.bytes(len(helloMagic))); magic != helloMagic {
		return verdictMsg{}, fmt.Errorf("decode verdict: begins with %q, want %q: %w", magic, helloMagic, ErrMalformed)
	}
	v := verdictMsg{version: d.u16(), code: d.u8()}
	v.cluster, v.id, v.info, v.text = d.str(maxName), d.str(maxName), d.str(maxText), d.str(maxText)
	if err := d.end(); err != nil {
		return verdictMsg{}, fmt.Errorf("decode verdict: %w", err)
	}
	if v.code > codeMalformed {
		return verdictMsg{}, fmt.Errorf("decode verdict: unknown code %d: %w", v.code, ErrMalformed)
	}
	return v, nil
}

// readShort reads a message of at most maxHello bytes and not a byte more.
func readShort(r io.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	switch {
	case n[0] == 0x16 && n[1] == 3: // the record of a TLS handshake
		return nil, fmt.Errorf("read hello: the caller speaks TLS, this side does not: give it --tls-cert, --tls-key and --tls-ca, or leave them out at the caller: %w", ErrMalformed)
	case string(n[:2]) == helloMagic[:2]: // p2p/sockets begins so where there is a token
		return nil, fmt.Errorf("read hello: the caller shows a token, this side asks for none: give it --token-file, or leave it out at the caller: %w", ErrMalformed)
	}
	size := binary.LittleEndian.Uint32(n[:])
	if size > maxHello {
		return nil, fmt.Errorf("read hello: begins with %q, which is no length up to %d: %w", n, maxHello, ErrMalformed)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return b, err
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// clip bounds a text for people.
func clip(s string) string { return s[:min(len(s), maxText)] }

// fields takes a message apart. After the first fault everything is zero and err says where it was.
type fields struct {
	b   []byte
	off int
	err error
}

func (d *fields) bytes(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.b)-d.off {
		d.err = fmt.Errorf("%w: %d bytes wanted at offset %d of %d", ErrMalformed, n, d.off, len(d.b))
		return nil
	}
	d.off += n
	return d.b[d.off-n : d.off : d.off]
}

func (d *fields) uint(n int) uint64 {
	var x [8]byte
	copy(x[:], d.bytes(n))
	return binary.LittleEndian.Uint64(x[:])
}

func (d *fields) u8() uint8   { return uint8(d.uint(1)) }
func (d *fields) u16() uint16 { return uint16(d.uint(2)) }
func (d *fields) u32() uint32 { return uint32(d.uint(4)) }
func (d *fields) u64() uint64 { return d.uint(8) }

func (d *fields) str(limit int) string {
	n := int(d.u16())
	if d.err == nil && n > limit {
		d.err = fmt.Errorf("%w: text of %d bytes at offset %d, at most %d", ErrMalformed, n, d.off, limit)
	}
	return string(d.bytes(n))
}

// length reads a u64 that must fit an int.
func (d *fields) length() int {
	n := d.u64()
	if d.err == nil && n > math.MaxInt {
		d.err = fmt.Errorf("%w: length %d at offset %d", ErrMalformed, n, d.off-8)
		return 0
	}
	return int(n)
}

func (d *fields) end() error {
	if d.err == nil && d.off != len(d.b) {
		d.err = fmt.Errorf("%w: %d bytes too many after offset %d", ErrMalformed, len(d.b)-d.off, d.off)
	}
	return d.err
}
