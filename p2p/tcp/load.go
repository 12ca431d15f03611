package tcp

import (
	"net"

	"hcclps/internal/vec"
)

// load is the memory of a message that is sent, or of a part of it: in one place or in several.
type load struct {
	one  []byte
	many [][]byte // in place of one
	size int      // bytes
}

func loadOf(b []byte) load { return load{one: b, size: len(b)} }

func loadOfMany(places [][]byte) load {
	l := load{many: places}
	for _, b := range places {
		l.size += len(b)
	}
	return l
}

// cut is the part from one offset up to another.
func (l load) cut(from, to int) load {
	if l.many == nil {
		return loadOf(l.one[from:to])
	}
	part := load{many: make([][]byte, 0, 4), size: to - from}
	for _, b := range l.many {
		if from < len(b) && to > 0 {
			part.many = append(part.many, b[max(from, 0):min(to, len(b))])
		}
		from, to = from-len(b), to-len(b)
	}
	return part
}

// sum is the CRC-32C of the bytes.
func (l load) sum() uint32 {
	sum := vec.CRC32C(0, l.one)
	for _, b := range l.many {
		sum = vec.CRC32C(sum, b)
	}
	return sum
}

// appendTo appends the places, without empty ones.
func (l load) appendTo(vectors net.Buffers) net.Buffers {
	if len(l.one) > 0 {
		vectors = append(vectors, l.one)
	}
	for _, b := range l.many {
		if len(b) > 0 {
			vectors = append(vectors, b)
		}
	}
	return vectors
}
