package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/compress"
)

func benchCompressCommand() *cli.Command {
	return &cli.Command{
		Name: "compress", Usage: "codecs: size, speed and error",
		Description: "Vectors have normal elements. encode is with a residual, as gradients are encoded, decode adds; both in GB of float32 a second, by one core.\n" +
			"error is the length of what one code does not hold, by that of the vector; with a residual it is late, not lost. late is the length of the residual after 100\n" +
			"vectors, in vectors.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "codecs", Value: cli.NewStringSlice(compress.Names()...), Usage: "to be measured, such as onebit,topk:0.05"},
			&cli.StringSliceFlag{Name: "sizes", Value: cli.NewStringSlice("64KiB", "1MiB", "64MiB"), Usage: "of vectors, in bytes of float32", EnvVars: program.Env("bench-sizes")},
			&cli.DurationFlag{Name: "time", Value: 200 * time.Millisecond, Usage: "for each direction of a codec and size, about", EnvVars: program.Env("bench-time")},
			&cli.BoolFlag{Name: "json", Usage: "a line for each codec and size"},
		}, program.ConfigFlags()),
		Action: benchCompress,
	}
}

// codecSpeed is what was measured of a codec.
type codecSpeed struct {
	Codec  string  `json:"codec"`
	Size   int     `json:"size"`  // bytes of float32
	Bytes  int     `json:"bytes"` // of the code
	Ratio  float64 `json:"ratio"`
	Encode float64 `json:"encode"` // GB/s
	Decode float64 `json:"decode"`
	Error  float64 `json:"error"`
	Late   float64 `json:"late"`
}

func benchCompress(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if c.Duration("time") <= 0 {
		return program.Usage("--time %v: want some", c.Duration("time"))
	}
	var sizes []int
	for _, s := range c.StringSlice("sizes") {
		n, err := program.Bytes("sizes", s)
		if err != nil {
			return err
		}
		if n < 4 || n > math.MaxInt32 {
			return program.Usage("--sizes %s: want 4 bytes or more, and less than 2GiB", s)
		}
		sizes = append(sizes, int(n))
	}
	codecs := make([]compress.Codec, 0, len(c.StringSlice("codecs")))
	for _, name := range c.StringSlice("codecs") {
		codec, err := compress.Parse(name)
		if err != nil {
			return &program.UsageError{Err: err}
		}
		codecs = append(codecs, codec)
	}
	show := codecTable(c.App.Writer, c.Bool("json"))
	for _, size := range sizes {
		for _, codec := range codecs {
			if err := c.Err(); err != nil {
				return err
			}
			r, err := measureCodec(codec, size/4, c.Duration("time"))
			if err != nil {
				return fmt.Errorf("measure %s: %w", codec, err)
			}
			if err := show(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// codecTable prints rows, the first with a head.
func codecTable(w io.Writer, lines bool) func(codecSpeed) error {
	if lines {
		e := json.NewEncoder(w)
		return func(r codecSpeed) error { return e.Encode(r) }
	}
	headed := false
	return func(r codecSpeed) error {
		if !headed {
			headed = true
			if _, err := fmt.Fprintf(w, "%-14s %10s %10s %7s %8s %8s %9s %7s\n", "codec", "size (B)", "bytes", "ratio", "encode", "decode", "error", "late"); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "%-14s %10d %10d %7.1f %8.2f %8.2f %9.2g %7.2f\n", r.Codec, r.Size, r.Bytes, r.Ratio, r.Encode, r.Decode, r.Error, r.Late)
		return err
	}
}

// lateAfter is after how many vectors a residual is measured.
const lateAfter = 100

func measureCodec(codec compress.Codec, n int, limit time.Duration) (codecSpeed, error) {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	x, got := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	r := codecSpeed{Codec: codec.String(), Size: 4 * n}
	code, err := codec.Append(make([]byte, 0, codec.MaxLen(n)), x, 1)
	if err != nil {
		return r, err
	}
	r.Bytes, r.Ratio = len(code), float64(4*n)/float64(len(code))
	if err := codec.Decode(got, code, compress.Set); err != nil {
		return r, err
	}
	for i := range got {
		got[i] -= x[i]
	}
	r.Error = compress.Norm(got) / compress.Norm(x)
	f, err := compress.NewFeedback(codec, n)
	if err != nil {
		return r, err
	}
	seed := uint64(0)
	r.Encode, err = gbps(n, limit, func() error {
		seed++
		code, err = f.Append(code[:0], x, seed)
		return err
	})
	if err != nil {
		return r, err
	}
	r.Decode, err = gbps(n, limit, func() error { return codec.Decode(got, code, compress.Add) })
	if err != nil {
		return r, err
	}
	return r, residualOf(f, x, &r)
}

// residualOf is the residual after vectors that have nothing to do with each other.
func residualOf(f *compress.Feedback, x []float32, r *codecSpeed) error {
	const most = 1 << 20 // elements are alike
	if len(x) > most {
		var err error
		x = x[:most]
		if f, err = compress.NewFeedback(f.Codec(), most); err != nil {
			return err
		}
	}
	f.Reset()
	rng := rand.New(rand.NewPCG(2, uint64(len(x))))
	var code []byte
	for seed := range uint64(lateAfter) {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		var err error
		if code, err = f.Append(code[:0], x, seed); err != nil {
			return err
		}
	}
	r.Late = f.Norm() / compress.Norm(x)
	return nil
}

// gbps is how many GB of n float32 go through f in a second: the best of some runs of it.
func gbps(n int, limit time.Duration, f func() error) (float64, error) {
	best := time.Duration(math.MaxInt64)
	for began := time.Now(); ; {
		at := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		best = min(best, max(time.Since(at), 1))
		if time.Since(began) > limit {
			return 4e-9 * float64(n) / best.Seconds(), nil
		}
	}
}
