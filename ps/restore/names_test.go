package restore

import (
	"slices"
	"strings"
	"testing"

	"hcclps/checkpoint"
)

// Ranks keep their names, but those of a job without servers that are called by ranks they have no more.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		mode  string
		world int
		had   string
		want  string // "": as they were
	}{
		{"ps", 0, "worker-0 worker-1", ""},
		{"ps", 3, "w-0 w-1", "w-0 w-1 w-2"},
		{"ps", 1, "alice bob", "alice"},
		{"ps", 3, "alice bob", "alice bob alice-2"},
		{"allreduce", 0, "worker-0 worker-1", ""},
		{"allreduce", 0, "worker-2 worker-0", "worker-0 worker-1"},
		{"allreduce", 3, "worker-2", "worker-0 worker-1 worker-2"},
		{"allreduce", 2, "worker-0 worker-2", "worker-0 worker-1"},
		{"allreduce", 0, "bob alice", ""},
		{"allreduce", 3, "bob a-1", "bob a-1 bob-2"},
	} {
		m := &checkpoint.Manifest{Params: []byte(`{"mode":"` + c.mode + `"}`)}
		for rank, name := range strings.Fields(c.had) {
			m.Workers = append(m.Workers, checkpoint.Worker{Name: name, Rank: uint32(rank)})
		}
		r := run{Config: Config{World: c.world}, m: m}
		if got, err := r.names(); err != nil || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestNobodyCannotGoOn(t *testing.T) {
	if _, err := Run(t.Context(), Config{World: -1}); err == nil || !strings.Contains(err.Error(), "-1 workers") {
		t.Errorf("restored for -1 workers: %v", err)
	}
}
