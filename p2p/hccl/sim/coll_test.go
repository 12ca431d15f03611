package sim

import (
	"strconv"
	"testing"
)

func TestCollectivesAgainstNaiveResults(t *testing.T) {
	t.Parallel()
	dir := simulator(t)
	exe := program(t, dir, "collectives")
	for _, size := range []int{1, 2, 3, 4} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			world{exe: exe, dir: dir, size: size}.run(t)
		})
	}
}
