package compress_test

import (
	"fmt"
	"testing"

	"hcclps/compress"
)

// BenchmarkFeedback encodes with a residual: MB/s are of float32.
func BenchmarkFeedback(b *testing.B) {
	for _, name := range compress.Names() {
		for _, n := range []int{16 << 10, 1 << 20} {
			f, x := newFeedback(b, name, n), normal(1, n)
			room := make([]byte, 0, f.Codec().MaxLen(n))
			b.Run(fmt.Sprintf("%s/%dKiB", name, n>>8), func(b *testing.B) {
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					if _, err := f.Append(room, x, 1); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDecode decodes and adds: MB/s are of float32.
func BenchmarkDecode(b *testing.B) {
	for _, name := range compress.Names() {
		for _, n := range []int{16 << 10, 1 << 20} {
			c, x := parse(b, name), normal(1, n)
			code, err := c.Append(nil, x, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%dKiB", name, n>>8), func(b *testing.B) {
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					if err := c.Decode(x, code, compress.Add); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkRows encodes and decodes 4096 rows of 16 with spread keys: MB/s are of keys and float32, and bytes those a row takes.
func BenchmarkRows(b *testing.B) {
	const n, dim = 4096, 16
	keys, rows := make([]uint64, n), normal(1, n*dim)
	for i := range keys {
		keys[i] = uint64(i)<<52 + uint64(i*i*7919)<<16>>16<<12
	}
	for _, name := range []string{"none", "fp16", "int8", "twobit", "onebit"} {
		c := parse(b, name)
		frame := rowsFrame(b, name, keys, rows, dim)
		b.Run("encode/"+name, func(b *testing.B) {
			b.SetBytes(n * (8 + 4*dim))
			for b.Loop() {
				if _, err := compress.AppendRows(frame[:0], c, keys, rows, dim, 0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(frame))/n, "bytes")
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.SetBytes(n * (8 + 4*dim))
			out, room := make([]float32, n*dim), make([]uint64, 0, n)
			for b.Loop() {
				f, _, err := compress.Open(frame)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := f.Keys(room); err != nil {
					b.Fatal(err)
				}
				if err := f.Decode(out, compress.Set); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
