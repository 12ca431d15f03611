package table

import "sync/atomic"

// Memory bounds the bytes of all tables that share it. Its methods may be called concurrently.
//
// It is a measure, not a wall: a table with a Cold store moves rows out when memory is short (Cool), others only count.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// NewMemory makes a bound of so many bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Limit is the bytes given to NewMemory.
func (m *Memory) Limit() int64 { return m.limit }

// Used is the bytes in use: what the tables have mapped and made, and what Add has counted.
func (m *Memory) Used() int64 { return m.used.Load() }

// Add counts bytes that serve the tables and lie outside of them, or with a negative n takes them back.
func (m *Memory) Add(n int64) {
	if m != nil {
		m.used.Add(n)
	}
}

// left is what may still be used; it is negative beyond the limit.
func (m *Memory) left() int64 { return m.limit - m.used.Load() }
