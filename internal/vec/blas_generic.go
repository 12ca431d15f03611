//go:build !amd64 && !arm64

package vec

func detect() unit { return plain }

func addFast(_, _ *float32, _ int) int                      { return 0 }
func scaleFast(_ *float32, _ float32, _ int) int            { return 0 }
func axpyFast(_ *float32, _ float32, _ *float32, _ int) int { return 0 }
func dotFast(_, _ []float32) (float32, bool)                { return 0, false }
