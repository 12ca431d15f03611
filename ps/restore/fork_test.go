package restore

import (
	"fmt"
	"testing"

	"hcclps/checkpoint"
)

// A table that is not there is called so, with a guess if one is near, and not all names of a large model.
func TestForkOfAnUnknownTable(t *testing.T) {
	m := &checkpoint.Manifest{ID: 4}
	for i, want := range []string{
		`checkpoint 4 has no table "Bat": it has none at all`,
		`checkpoint 4 has no table "Bat": did you mean "Bar"? it has ["Bar"]`,
		`checkpoint 4 has no table "x": it has ["Bar" "t01" "t02" "t03" "t04" "t05" "t06" "t07" "t08" "t09"] and 2 more`,
	} {
		name := "Bat"
		switch i {
		case 1:
			m.Tables = append(m.Tables, checkpoint.Table{ID: 1, Name: "Bar"})
		case 2:
			name = "x"
			for n := uint32(1); n <= 11; n++ {
				m.Tables = append(m.Tables, checkpoint.Table{ID: n + 1, Name: fmt.Sprintf("t%02d", n)})
			}
		}
		cfg := &ForkConfig{}
		if _, err := cfg.fork(m, Copy{Table: name, As: "y"}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
