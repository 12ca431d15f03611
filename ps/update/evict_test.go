package update

import (
	"math"
	"testing"
)

func TestBudgetsOfPartitionsAddUp(t *testing.T) {
	t.Parallel()
	for _, rows := range []uint64{0, 1, 1000, 5000, 1<<53 - 1, 1 << 53, 1 << 63, math.MaxUint64} {
		e, sum := evictor{rows: rows}, uint64(0)
		for p := range partitions {
			n := e.budget(p)
			if n < 0 || uint64(n) < rows/partitions || uint64(n) > rows/partitions+1 {
				t.Fatalf("%d rows: partition %d has %d", rows, p, n)
			}
			sum += uint64(n)
		}
		if sum != rows {
			t.Errorf("%d rows: %d over all partitions", rows, sum)
		}
	}
}
