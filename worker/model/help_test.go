package model

import (
	"testing"
	"time"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// cluster runs one server without replication until the test ends.
func cluster(t testing.TB) *ps.Local {
	t.Helper()
	return pstest.Serve(t, ps.LocalConfig{Servers: 1, Replicas: 1, Scratch: true})
}

func connect(t testing.TB, l *ps.Local, cfg worker.Config) *worker.Client {
	t.Helper()
	cfg.Servers, cfg.Cluster, cfg.Network, cfg.Deadline = l.Addrs(), l.Cluster(), l.Network(), 90*time.Second
	c, err := worker.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// batches is a Source of the same batches every epoch.
type batches struct {
	all []dataset.Batch
	at  int
}

func (s *batches) Next(b *dataset.Batch) (bool, error) {
	if s.at == len(s.all) {
		s.at = 0
		return false, nil
	}
	*b = s.all[s.at]
	s.at++
	return true, nil
}

func (s *batches) Seek(_, batch int) error { s.at = min(batch, len(s.all)); return nil }
func (*batches) Close() error              { return nil }

// bags makes the column of a sparse feature: one bag a row.
func bags(name string, rows ...[]uint64) dataset.Column {
	r := dataset.Ragged{Offsets: []int32{0}}
	for _, keys := range rows {
		for _, k := range keys {
			r.Keys = append(r.Keys, k)
			r.Weights = append(r.Weights, 1+float32(k%3)/2)
		}
		r.Offsets = append(r.Offsets, int32(len(r.Keys)))
	}
	return dataset.Column{Name: name, Ragged: r}
}
