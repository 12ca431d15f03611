package model

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"hcclps/ps"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// The bars hold for every value of these:
//
//	go test ./worker/model -run Data -v -seeds 5 -workers 2 -sync asp
var (
	seeds   = flag.Int("seeds", 1, "train with seeds 1 to N, and judge the median")
	workers = flag.Int("workers", 1, "train with N workers")
	mode    = flag.String("sync", "bsp", "bsp, ssp (of staleness 2) or asp")
)

// data is the path of a file of the data folder; the test is skipped without.
func data(t *testing.T, path ...string) string {
	t.Helper()
	root := os.Getenv("HCCLPS_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	full, err := filepath.Abs(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skipf("set HCCLPS_DATA to the data folder: %v", err)
	}
	return full
}

// trial is the training of a model with its defaults.
type trial struct {
	model       string
	train, test dataset.Config
}

// split is a trial on one file, of which every tenth row is for testing.
func split(model string, c dataset.Config) trial {
	r := trial{model: model, train: c, test: c}
	r.train.Split = dataset.Split{Every: 10}
	r.test.Split = dataset.Split{Every: 10, Test: true}
	return r
}

// result is what came of it; RMSE is that of mf.
type result struct{ auc, accuracy, logLoss, rmse float64 }

// run trains with one seed.
func (r trial) run(ctx context.Context, l *ps.Local, seed uint64) (out result, err error) {
	jobs := fmt.Sprintf("%p", &out)
	var eg errgroup.Group
	for rank := range *workers {
		cfg := worker.Config{Job: jobs, Seed: seed, Rank: rank, World: *workers}
		switch *mode {
		case "ssp":
			cfg.Sync, cfg.Staleness = worker.SSP, 2
		case "asp":
			cfg.Sync = worker.ASP
		}
		eg.Go(func() error {
			got, err := r.work(ctx, l, cfg)
			if rank == 0 {
				out = got
			}
			return err
		})
	}
	return out, eg.Wait()
}

// work is one worker; rank 0 judges.
func (r trial) work(ctx context.Context, l *ps.Local, cfg worker.Config) (result, error) {
	cfg.Servers, cfg.Cluster, cfg.Network = l.Addrs(), l.Cluster(), l.Network()
	c, err := worker.Connect(ctx, cfg)
	if err != nil {
		return result{}, err
	}
	defer c.Abandon()
	d := Defaults(r.model)
	r.train.Batch, r.train.Seed = d.Batch, cfg.Seed
	src, err := dataset.Open(r.train)
	if err != nil {
		return result{}, err
	}
	m, err := New(ctx, c, src.Schema(), Options{Model: r.model})
	if err != nil {
		return result{}, err
	}
	if _, err := c.Train(ctx, m, src, worker.TrainOptions{Epochs: d.Epochs}); err != nil || cfg.Rank != 0 {
		return result{}, err
	}
	r.test.Schema, r.test.Batch, r.test.InOrder = src.Schema(), 4096, true
	held, err := dataset.Open(r.test)
	if err != nil {
		return result{}, err
	}
	b, err := c.Evaluate(ctx, m, held)
	if err != nil {
		return result{}, err
	}
	return result{b.AUC(), b.Accuracy(), b.LogLoss(), b.RMSE()}, nil
}

// median trains with each seed and returns the medians; it logs all.
func (r trial) median(t *testing.T, l *ps.Local) result {
	t.Helper()
	var all []result
	for seed := range *seeds {
		got, err := r.run(t.Context(), l, uint64(seed+1))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, seed %d: AUC %.4f, accuracy %.4f, log loss %.4f, RMSE %.4f", r.model, seed+1, got.auc, got.accuracy, got.logLoss, got.rmse)
		all = append(all, got)
	}
	of := func(f func(result) float64) float64 {
		var v []float64
		for _, r := range all {
			v = append(v, f(r))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return result{
		auc:      of(func(r result) float64 { return r.auc }),
		accuracy: of(func(r result) float64 { return r.accuracy }),
		logLoss:  of(func(r result) float64 { return r.logLoss }),
		rmse:     of(func(r result) float64 { return r.rmse }),
	}
}

func label(t *testing.T, s string) dataset.Label {
	t.Helper()
	l, err := dataset.ParseLabel(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestA9aNeedsData(t *testing.T) {
	r := trial{model: NameLR}
	r.train.Paths, r.test.Paths = []string{data(t, "adult-a9a", "a9a")}, []string{data(t, "adult-a9a", "a9a.t")}
	if got := r.median(t, cluster(t)); !(got.accuracy >= 0.845 && got.auc >= 0.900) {
		t.Errorf("lr: %+v", got)
	}
}

func TestMushroomNeedsData(t *testing.T) {
	r := trial{model: NameLR}
	r.train.Paths, r.test.Paths = []string{data(t, "mushroom", "agaricus_train.txt")}, []string{data(t, "mushroom", "agaricus_test.txt")}
	if got := r.median(t, cluster(t)); !(got.auc >= 0.999) {
		t.Errorf("lr: %+v", got)
	}
}

func TestAdultNeedsData(t *testing.T) {
	l := cluster(t)
	for _, model := range []string{NameLR, NameWideDeep} {
		r := trial{model: model}
		r.train = dataset.Config{Format: dataset.FormatCSV, Paths: []string{data(t, "adult", "adult.data")}, Label: label(t, "c14=>50K,>50K.")}
		r.test = r.train
		r.test.Paths = []string{data(t, "adult", "adult.test")}
		if got := r.median(t, l); !(got.auc >= 0.903) {
			t.Errorf("%s: %+v", model, got)
		}
	}
}

func coupon(t *testing.T, model string) trial {
	t.Helper()
	path := data(t, "vehicle-coupon", "in-vehicle-coupon-recommendation.csv")
	return split(model, dataset.Config{Format: dataset.FormatCSV, Paths: []string{path}, Label: label(t, "Y")})
}

func TestCouponNeedsData(t *testing.T) {
	l := cluster(t)
	base := coupon(t, NameLR).median(t, l)
	for _, model := range []string{NameFM, NameDeepFM} {
		if got := coupon(t, model).median(t, l); !(got.auc >= 0.78 && got.auc >= base.auc+0.03) {
			t.Errorf("%s: %+v; lr: %+v", model, got, base)
		}
	}
	for _, model := range []string{NameWideDeep, NameDLRM, NameTwoTower} {
		if got := coupon(t, model).median(t, l); !(got.auc >= base.auc+0.01) {
			t.Errorf("%s: %+v; lr: %+v", model, got, base)
		}
	}
}

func TestRatingsNeedData(t *testing.T) {
	r := split(NameMF, dataset.Config{Format: dataset.FormatRatings, Paths: []string{data(t, "movietweetings", "ratings.dat")}})
	if got := r.median(t, cluster(t)); !(got.rmse <= 1.56) {
		t.Errorf("mf: %+v", got)
	}
}

func TestClicksNeedData(t *testing.T) {
	liked := 8.0
	s := &dataset.Schema{
		Columns: []string{"user", "movie", "rating", "time"},
		Features: []dataset.Feature{
			{Name: "label", Column: "rating", Kind: dataset.KindLabel, AtLeast: &liked},
			{Name: "user", Kind: dataset.KindID},
			{Name: "movie", Kind: dataset.KindID, As: "text"},
			{Name: "year", Kind: dataset.KindID, Column: "title", Match: `\((\d{4})\)$`},
			{Name: "genres", Kind: dataset.KindIDs},
		},
		Join: []dataset.Join{{File: data(t, "movietweetings", "movies.dat"), Format: dataset.FormatRatings, Columns: []string{"movie", "title", "genres"}, Key: "movie"}},
	}
	r := split(NameLR, dataset.Config{Format: dataset.FormatRatings, Paths: []string{data(t, "movietweetings", "ratings.dat")}, Schema: s})
	if got := r.median(t, cluster(t)); !(got.auc >= 0.80) {
		t.Errorf("lr: %+v", got)
	}
}
