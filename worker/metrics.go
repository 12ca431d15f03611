package worker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hcclps/ps/optim"
	"hcclps/worker/dataset"
	"hcclps/worker/metric"
)

// Metrics judges a model's scores by name. For probabilities: logloss, auc,
// prauc, calibration, accuracy; for values: rmse, mae; of any scores by the
// groups that a sparse feature makes, a user for instance: gauc:FEATURE,
// hr@K:FEATURE, recall@K:FEATURE, ndcg@K:FEATURE. Metrics of scores of the other
// kind are NaN. It is for one goroutine at a time.
type Metrics struct {
	metric.Binary     // empty for a model of values
	metric.Regression // empty for a model of probabilities

	rows    int
	groups  map[string]*metric.Grouped // by feature
	ordered []string                   // their names
}

// named is a metric's name taken apart.
type named struct {
	kind    string
	k       int    // of hr, recall, ndcg
	feature string // "": not by group
}

// CheckMetric says whether a metric has that name.
func CheckMetric(name string) error {
	_, err := parseMetric(name)
	return err
}

func parseMetric(name string) (named, error) {
	of, feature, grouped := strings.Cut(name, ":")
	kind, top, ranked := strings.Cut(of, "@")
	m := named{kind: kind, feature: feature}
	var err error
	if ranked {
		m.k, err = strconv.Atoi(top)
	}
	plain, byGroup, byRank := []string{"logloss", "auc", "prauc", "calibration", "accuracy", "rmse", "mae"}, "gauc", []string{"hr", "recall", "ndcg"}
	switch {
	case err == nil && !grouped && !ranked && slices.Contains(plain, kind),
		err == nil && feature != "" && !ranked && kind == byGroup,
		err == nil && feature != "" && m.k > 0 && slices.Contains(byRank, kind):
		return m, nil
	}
	nearest := ""
	if all := append(append(plain, byGroup), byRank...); !slices.Contains(all, kind) {
		nearest = "; nearest is " + optim.Nearest(kind, all)
	}
	return m, fmt.Errorf("metric %q: want one of %s, or by a feature gauc:FEATURE, hr@K:FEATURE, recall@K:FEATURE, ndcg@K:FEATURE%s", name, strings.Join(plain, ", "), nearest)
}

// newMetrics makes room for the metrics named, beside those that need no names.
func newMetrics(names []string) (*Metrics, error) {
	var faults []error
	m := &Metrics{groups: map[string]*metric.Grouped{}}
	for _, name := range names {
		n, err := parseMetric(name)
		faults = append(faults, err)
		if err == nil && n.feature != "" {
			m.groups[n.feature] = &metric.Grouped{}
		}
	}
	m.ordered = slices.Sorted(maps.Keys(m.groups))
	return m, errors.Join(faults...)
}

// add counts a batch.
func (m *Metrics) add(scores []float32, b *dataset.Batch, values bool) error {
	for i, score := range scores {
		if values {
			m.Regression.Add(score, b.Label[i])
		} else {
			m.Binary.Add(score, b.Label[i])
		}
	}
	for _, feature := range m.ordered {
		bags, ok := ragged(b, feature)
		if !ok {
			return fmt.Errorf("metric by %q: the data has no such sparse feature", feature)
		}
		for i, score := range scores {
			if from := bags.Offsets[i]; from < bags.Offsets[i+1] {
				m.groups[feature].Add(bags.Keys[from], score, b.Label[i])
			}
		}
	}
	m.rows += len(scores)
	return nil
}

// Rows is the number of rows judged.
func (m *Metrics) Rows() int { return m.rows }

// Value is a metric by its name.
func (m *Metrics) Value(name string) (float64, error) {
	n, err := parseMetric(name)
	if err != nil {
		return 0, err
	}
	g := m.groups[n.feature]
	if n.feature != "" && g == nil {
		return 0, fmt.Errorf("metric %q was not asked for", name)
	}
	switch n.kind {
	case "logloss":
		return m.LogLoss(), nil
	case "auc":
		return m.AUC(), nil
	case "prauc":
		return m.PRAUC(), nil
	case "calibration":
		return m.Calibration(), nil
	case "accuracy":
		return m.Accuracy(), nil
	case "rmse":
		return m.RMSE(), nil
	case "mae":
		return m.MAE(), nil
	case "gauc":
		return g.GAUC(), nil
	case "hr":
		return g.HitRate(n.k), nil
	case "recall":
		return g.Recall(n.k), nil
	default:
		return g.NDCG(n.k), nil
	}
}

// better says whether a metric improves by rising (1) or falling (-1).
func (n named) better() (float64, error) {
	switch n.kind {
	case "logloss", "rmse", "mae":
		return -1, nil
	case "calibration":
		return 0, errors.New("metric calibration is best at 1: it cannot say which of two models is the better one")
	default:
		return 1, nil
	}
}
