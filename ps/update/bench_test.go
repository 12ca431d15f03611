package update_test

import (
	"testing"

	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// BenchmarkKeeping is the rate of apply and sweep with rules: steps of 20,000 rows of 16 values, adagrad, nine in ten
// of keys that are there, of 10^5, and one in ten new.
func BenchmarkKeeping(b *testing.B) {
	for _, rules := range [][2]string{{"", ""}, {"count:2", ""}, {"bloom:2", ""}, {"prob:0.1", ""}, {"", "ttl:100steps"}, {"", "rows:120000"}, {"count:2", "rows:120000,lfu:100"}} {
		b.Run("admit="+rules[0]+"/evict="+rules[1], func(b *testing.B) {
			w := spec()
			w.Dim, w.Optimizer, w.Params = 16, "adagrad", nil
			w.Admit, _ = wire.ParseAdmit(rules[0])
			w.Evict, _ = wire.ParseEvict(rules[1])
			tab, err := update.New(w, update.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = tab.Close() }()
			s := wire.Section{Table: 3, Dim: 16, Keys: make([]uint64, 20_000), Values: make([]float32, 16*20_000)}
			next := uint64(1 << 40)
			step := func(n uint64) {
				for i := range s.Keys {
					if s.Keys[i] = uint64(i)*5 + n%5; i >= 18_000 {
						s.Keys[i] = next
						next++
					}
				}
				tab.Advance()
				if err := tab.Apply(s, table.Stamp{Step: uint32(n + 1)}, tab.Step(1)); err != nil {
					b.Fatal(err)
				}
				tab.Sweep(n+1, n+1)
			}
			n := uint64(0)
			for ; n < 20; n++ {
				step(n)
			}
			for b.Loop() {
				step(n)
				n++
			}
			b.ReportMetric(float64(len(s.Keys))*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
