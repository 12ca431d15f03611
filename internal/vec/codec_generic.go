//go:build !amd64

package vec

func encodeF16Fast(_ *byte, _ *float32, _ int) int  { return 0 }
func decodeF16Fast(_ *float32, _ *byte, _ int) int  { return 0 }
func addF16Fast(_ *float32, _ *byte, _ int) int     { return 0 }
func encodeBF16Fast(_ *byte, _ *float32, _ int) int { return 0 }
func decodeBF16Fast(_ *float32, _ *byte, _ int) int { return 0 }
func addBF16Fast(_ *float32, _ *byte, _ int) int    { return 0 }

func maxAbsFast(_ *float32, _ int) (top uint32, done int) { return 0, 0 }
func absSumFast(_ *float32, _ int) (sum float32, ok bool) { return 0, false }
func addAbsSumFast(_, _, _ *float32, _ int) int           { return 0 }
func absSumAboveFast(_ *float32, _ uint32, _ int) (sum float32, count int, ok bool) {
	return 0, 0, false
}
func selectAbsFast(_ *uint32, _ int, _ *float32, _ uint32, _ int) (found, seen int) { return 0, 0 }

func packSignsFast(_ *byte, _ *float32, _ int) int                { return 0 }
func packSignsRestFast(_ *byte, _ *float32, _ float32, _ int) int { return 0 }
func unpackSignsFast(_ *float32, _ *byte, _ float32, _ int) int   { return 0 }
func addSignsFast(_ *float32, _ *byte, _ float32, _ int) int      { return 0 }

func packTwoBitFast(_, _ *byte, _ *float32, _ uint32, _ int) int                { return 0 }
func packTwoBitRestFast(_, _ *byte, _ *float32, _ uint32, _ float32, _ int) int { return 0 }
func unpackTwoBitFast(_ *float32, _, _ *byte, _ float32, _ int) int             { return 0 }
func addTwoBitFast(_ *float32, _, _ *byte, _ float32, _ int) int                { return 0 }

func encodeInt8Fast(_ *byte, _ *float32, _, _ int) int     { return 0 }
func encodeInt8RestFast(_ *byte, _ *float32, _, _ int) int { return 0 }
func decodeInt8Fast(_ *float32, _ *byte, _, _ int) int     { return 0 }
func addInt8Fast(_ *float32, _ *byte, _, _ int) int        { return 0 }
