package program

import (
	"strconv"
	"strings"
	"time"
)

// Interval reads how often something is done: N or Nsteps, or a duration such as 10m. Empty or 0: never.
func Interval(flag, s string) (steps uint64, period time.Duration, err error) {
	if s == "" || s == "0" {
		return 0, 0, nil
	}
	if n, err := strconv.ParseUint(strings.TrimSuffix(s, "steps"), 10, 32); err == nil && n > 0 {
		return n, 0, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return 0, d, nil
	}
	return 0, 0, Usage("--%s %q: want a number of steps such as 500, or a duration such as 10m", flag, s)
}
