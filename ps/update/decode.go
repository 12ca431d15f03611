package update

import (
	"fmt"

	"hcclps/compress"
	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// MaxPlain bounds the keys and values of a body's coded sections once they are decoded.
const MaxPlain = 64 << 20

// Auto is the wire.Table.Compress of a table whose workers choose the codec step by step.
const Auto = "auto"

// PlainSize is how many bytes Decode asks for. The error is that of sections that cannot be, or are more than MaxPlain bytes.
func PlainSize(sections []wire.Section) (int, error) {
	n := 0
	for i := range sections {
		s := &sections[i]
		if s.Code == nil {
			continue
		}
		if s.Dim < 1 || s.Dim > MaxDim || s.Rows < 1 || s.Rows > MaxPlain {
			return 0, fmt.Errorf("table %d: a code of %d rows of %d values: %w", s.Table, s.Rows, s.Dim, ErrUnfit)
		}
		if n += wire.PlainSize(s.Rows, s.Dim); n > MaxPlain {
			return 0, fmt.Errorf("table %d: a code of %d rows of %d values, all together over %d bytes: use more parts a step: %w", s.Table, s.Rows, s.Dim, MaxPlain, ErrUnfit)
		}
	}
	return n, nil
}

// Decode decodes the coded sections of a body, in place. room gives memory for all at a multiple of 8 bytes, as much as
// PlainSize says; it is asked when the frames are whole. Values may be not finite.
func Decode(sections []wire.Section, room func(n int) []byte) error {
	n, err := PlainSize(sections)
	if err != nil || n == 0 {
		return err
	}
	frames := make([]compress.Frame, len(sections))
	for i := range sections {
		if sections[i].Code == nil {
			continue
		}
		if frames[i], err = open(&sections[i]); err != nil {
			return fmt.Errorf("table %d: %w", sections[i].Table, err)
		}
	}
	memory := room(n)
	for i := range sections {
		s := &sections[i]
		if s.Code == nil {
			continue
		}
		n := wire.PlainSize(s.Rows, s.Dim)
		if err := decode(s, frames[i], memory[:n]); err != nil {
			return fmt.Errorf("table %d: %w", s.Table, err)
		}
		memory = memory[n:]
	}
	return nil
}

// open checks that a section's frame is what the section says.
func open(s *wire.Section) (compress.Frame, error) {
	f, rest, err := compress.Open(s.Code)
	if err != nil {
		return f, err
	}
	if len(rest) > 0 || !f.Rows || f.Shape[0] != s.Rows || f.Shape[1] != s.Dim {
		return f, fmt.Errorf("a frame of shape %v and %d bytes behind it, want %d rows of %d values: %w", f.Shape, len(rest), s.Rows, s.Dim, ErrUnfit)
	}
	return f, nil
}

func decode(s *wire.Section, f compress.Frame, room []byte) error {
	keys := vec.Uint64s(room[:8*s.Rows])
	values := vec.Floats(room[8*s.Rows:][:4*s.Rows*s.Dim])
	if _, err := f.Keys(keys[:0]); err != nil {
		return err
	}
	n := f.Elements()
	if err := f.Decode(values[:n], compress.Set); err != nil {
		return err
	}
	clear(values[n:])
	s.Keys, s.Values, s.Code, s.Rows = keys, values, nil, 0
	return nil
}

// Sections reads a body. What it returns lies in the body, or is good until the next Reset.
func (r *Reducer) Sections(body []byte) ([]wire.Section, error) {
	sections, err := wire.DecodeSections(body)
	if err != nil {
		return nil, err
	}
	return sections, Decode(sections, r.room)
}

// room is n bytes until the next Reset.
func (r *Reducer) room(n int) []byte {
	if words := n / 8; cap(r.plain)-len(r.plain) < words {
		r.plain = make([]uint64, 0, max(words, 2*cap(r.plain)))
	}
	at := len(r.plain)
	r.plain = r.plain[:at+n/8]
	return vec.BytesOfUint64s(r.plain[at:])
}

// checkCodec wants a codec by its name, auto, or none.
func checkCodec(name string) error {
	if name == "" || name == Auto {
		return nil
	}
	_, err := compress.Parse(name)
	return err
}
