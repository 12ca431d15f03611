package program

import (
	"strconv"
	"strings"
)

// Bytes reads a size: a number, or one with KiB, MiB, GiB or TiB.
func Bytes(flag, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	num, shift := s, 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			num, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, Usage("--%s %q: want a size such as 64MiB", flag, s)
	}
	return n << shift, nil
}
