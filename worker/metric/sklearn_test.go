package metric_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"hcclps/worker/metric"
)

// known is a case of testdata/metrics.json, which testdata/metrics.py computed.
type known struct {
	Name          string
	Group         []uint64
	Score, Label  []float32
	Target, Guess []float32
	Want          map[string]float64
}

func TestAgreesWithScikitLearn(t *testing.T) {
	text, err := os.ReadFile("testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []known
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 5 {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got := c.metrics(1)
			if len(c.Want) != 17 || len(got) != len(c.Want) {
				t.Errorf("%d metrics, want %d", len(got), len(c.Want))
			}
			for name, w := range c.Want {
				if d := math.Abs(got[name] - w); !(d <= 1e-9*max(1, math.Abs(w))) {
					t.Errorf("%s is %v, want %v", name, got[name], w)
				}
			}
			for _, workers := range []int{2, 3, 7} {
				if again := c.metrics(workers); fmt.Sprint(again) != fmt.Sprint(got) {
					t.Errorf("%d workers: %v, one: %v", workers, again, got)
				}
			}
		})
	}
}

// metrics deals the rows over some workers, whose counts travel encoded and are
// merged from the last to the first.
func (c known) metrics(workers int) map[string]float64 {
	b := make([]metric.Binary, workers)
	r := make([]metric.Regression, workers)
	g := make([]metric.Grouped, workers)
	for i := range c.Score {
		w := (i * i) % workers
		b[w].Add(c.Score[i], c.Label[i])
		r[w].Add(c.Guess[i], c.Target[i])
		g[w].Add(c.Group[i], c.Score[i], c.Label[i])
	}
	var bin metric.Binary
	var reg metric.Regression
	var grp metric.Grouped
	for w := range slices.Backward(b) {
		bin.Merge(travel(b[w].Append(nil), metric.DecodeBinary))
		reg.Merge(travel(r[w].Append(nil), metric.DecodeRegression))
		grp.Merge(travel(g[w].Append(nil), metric.DecodeGrouped))
	}
	out := map[string]float64{
		"auc": bin.AUC(), "pr_auc": bin.PRAUC(), "logloss": bin.LogLoss(), "accuracy": bin.Accuracy(), "calibration": bin.Calibration(),
		"rmse": reg.RMSE(), "mae": reg.MAE(), "gauc": grp.GAUC(),
	}
	for _, k := range []int{1, 3, 10} {
		out[fmt.Sprintf("hit_rate@%d", k)] = grp.HitRate(k)
		out[fmt.Sprintf("recall@%d", k)] = grp.Recall(k)
		out[fmt.Sprintf("ndcg@%d", k)] = grp.NDCG(k)
	}
	return out
}

func travel[T any](b []byte, decode func([]byte) (*T, error)) *T {
	v, err := decode(b)
	if err != nil {
		return nil // the caller's Merge fails
	}
	return v
}
