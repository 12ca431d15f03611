package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// The file format of safetensors: u64 length of the header, a JSON object of the
// tensors by name, and their bytes, back to back
// (github.com/huggingface/safetensors, "Format").
const (
	tensorHeaderMax = 100 << 20 // as in the reference implementation
	tensorAlign     = 8
	metadataKey     = "__metadata__"
)

// ErrTensor is in the error of a tensor that is missing or is not what it should
// be.
var ErrTensor = errors.New("the tensor does not fit")

// Element types that are written and read.
const (
	float32s = "F32"
	int32s   = "I32"
	int64s   = "I64"
)

// tensor is an entry of the header.
type tensor struct {
	name    string
	DType   string    `json:"dtype"`
	Shape   []int64   `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

func (t *tensor) String() string { return fmt.Sprintf("%s %v", t.DType, t.Shape) }

// size is the number of bytes a shape needs; ok is false if it is none.
func size(dtype string, shape []int64) (bytes uint64, ok bool) {
	width := map[string]uint64{
		"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
		"U32": 4, int32s: 4, float32s: 4, "U64": 8, int64s: 8, "F64": 8,
	}[dtype]
	if width == 0 {
		return 0, false
	}
	n := width
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		if d > 0 && n > math.MaxInt64/uint64(d) {
			return 0, false
		}
		n *= uint64(d)
	}
	return n, true
}

// layTensors gives tensors their places, those of eight bytes an element first, so
// that all are aligned, and writes the header.
func layTensors(tensors []*tensor, metadata map[string]string) ([]byte, error) {
	slices.SortStableFunc(tensors, func(a, b *tensor) int {
		wide := func(t *tensor) int {
			if t.DType == int64s {
				return 0
			}
			return 1
		}
		return cmp.Compare(wide(a), wide(b))
	})
	header := map[string]any{}
	if len(metadata) > 0 {
		header[metadataKey] = metadata
	}
	at := uint64(0)
	for _, t := range tensors {
		n, ok := size(t.DType, t.Shape)
		if !ok || at+n > math.MaxInt64 {
			return nil, fmt.Errorf("tensor %q: %w: %v", t.name, ErrTensor, t)
		}
		if header[t.name] != nil || t.name == metadataKey {
			return nil, fmt.Errorf("two tensors are called %q: %w", t.name, ErrTensor)
		}
		t.Offsets = [2]uint64{at, at + n}
		at += n
		header[t.name] = t
	}
	b, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	for (8+len(b))%tensorAlign != 0 {
		b = append(b, ' ')
	}
	if len(b) > tensorHeaderMax {
		return nil, fmt.Errorf("a header of %d bytes, at most %d can be", len(b), tensorHeaderMax)
	}
	return append(le.AppendUint64(nil, uint64(len(b))), b...), nil
}

// readTensors reads a header and checks it against the size of the file. begin is
// where the bytes of the tensors begin.
func readTensors(r io.ReaderAt, fileSize int64) (tensors map[string]*tensor, begin int64, err error) {
	bad := func(at int64, format string, args ...any) (map[string]*tensor, int64, error) {
		return nil, 0, &DamageError{Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
	var head [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return bad(0, "it has no length of a header: %v", err)
	}
	n := le.Uint64(head[:])
	if n < 2 || n > tensorHeaderMax || int64(n) > fileSize-8 {
		return bad(0, "a header of %d bytes in a file of %d", n, fileSize)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, 8); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read header: %w", err)
	}
	begin = 8 + int64(n)
	if tensors, err = decodeTensors(b); err != nil {
		return bad(8, "%v", err)
	}
	if err := checkTensors(tensors, uint64(fileSize-begin)); err != nil {
		return bad(8, "%v", err)
	}
	return tensors, begin, nil
}

// decodeTensors reads the JSON of a header, in which a name is used once.
func decodeTensors(b []byte) (map[string]*tensor, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("the header is no JSON object")
	}
	tensors := map[string]*tensor{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		name, _ := key.(string)
		if name == metadataKey {
			var texts map[string]string
			if err := d.Decode(&texts); err != nil {
				return nil, fmt.Errorf("metadata: %w", err)
			}
			continue
		}
		t := &tensor{name: name}
		if err := d.Decode(t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if tensors[name] != nil {
			return nil, fmt.Errorf("tensor %q is there twice", name)
		}
		tensors[name] = t
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	if rest := bytes.TrimRight(b[d.InputOffset():], " "); len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes after the JSON object", len(rest))
	}
	return tensors, nil
}

// checkTensors demands that the tensors cover the bytes of the file without holes.
func checkTensors(tensors map[string]*tensor, room uint64) error {
	all := make([]*tensor, 0, len(tensors))
	for _, t := range tensors {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *tensor) int {
		return cmp.Or(cmp.Compare(a.Offsets[0], b.Offsets[0]), cmp.Compare(a.Offsets[1], b.Offsets[1]), cmp.Compare(a.name, b.name))
	})
	at := uint64(0)
	for _, t := range all {
		n, ok := size(t.DType, t.Shape)
		if !ok {
			return fmt.Errorf("tensor %q: unknown type or shape: %v", t.name, t)
		}
		if t.Offsets[0] != at || t.Offsets[1]-at != n || t.Offsets[1] < at {
			return fmt.Errorf("tensor %q, %v, has bytes %d to %d, want %d to %d", t.name, t, t.Offsets[0], t.Offsets[1], at, at+n)
		}
		at += n
	}
	if at != room {
		return fmt.Errorf("the tensors have %d bytes, the file %d", at, room)
	}
	return nil
}
