//go:build !amd64

package vec

func encodeF16Fast(_ *byte, _ *float32, _ int) int  { return 0 }
func decodeF16Fast(_ *float32, _ *byte, _ int) int  { return 0 }
func addF16Fast(_ *float32, _ *byte, _ int) int     { return 0 }
func encodeBF16Fast(_ *byte, _ *float32, _ int) int { return 0 }
func decodeBF16Fast(_ *float32, _ *byte, _ int) int { return 0 }
func addBF16Fast(_ *float32, _ *byte, _ int) int    { return 0 }
