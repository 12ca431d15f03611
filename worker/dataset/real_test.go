package dataset_test

import (
	"os"
	"path/filepath"
	"testing"

	"hcclps/worker/dataset"
)

// read goes through one epoch and returns rows, positive labels, and the keys of
// each ragged feature.
func read(t testing.TB, r dataset.Source) (rows, positive int, keys map[string]map[uint64]int) {
	t.Helper()
	var b dataset.Batch
	keys = map[string]map[uint64]int{}
	for next(t, r, &b) {
		rows += b.Rows
		for _, l := range b.Label {
			if l > 0.5 {
				positive++
			}
		}
		for _, c := range b.Features {
			if keys[c.Name] == nil {
				keys[c.Name] = map[uint64]int{}
			}
			for _, k := range c.Keys {
				keys[c.Name][k]++
			}
		}
	}
	return rows, positive, keys
}

func label(t testing.TB, s string) dataset.Label {
	t.Helper()
	l, err := dataset.ParseLabel(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAdultNeedsData(t *testing.T) {
	train, test := data(t, "adult", "adult.data"), data(t, "adult", "adult.test")
	r := open(t, dataset.Config{Format: "csv", Paths: []string{train}, Label: label(t, "c14=>50K,>50K.")})
	rows, positive, keys := read(t, r)
	if rows != 32561 || positive != 7841 {
		t.Errorf("%d rows, %d positive", rows, positive)
	}
	for name, n := range map[string]int{"c1": 9, "c3": 16, "c13": 42, "c0": 20} {
		if len(keys[name]) != n {
			t.Errorf("%s: %d keys, want %d", name, len(keys[name]), n)
		}
	}
	held := open(t, dataset.Config{Format: "csv", Paths: []string{test}, Schema: r.Schema(), InOrder: true})
	rows, positive, seen := read(t, held)
	if rows != 16281 || positive != 3846 {
		t.Errorf("test: %d rows, %d positive", rows, positive)
	}
	for name := range seen {
		for k := range seen[name] {
			if keys[name][k] == 0 {
				t.Errorf("test has key %d of %s that train lacks", k, name)
			}
		}
	}
}

func TestCouponNeedsData(t *testing.T) {
	path := data(t, "vehicle-coupon", "in-vehicle-coupon-recommendation.csv")
	cfg := dataset.Config{Format: "csv", Paths: []string{path}, Label: label(t, "Y"), Split: dataset.Split{Every: 10}}
	r := open(t, cfg)
	rows, _, keys := read(t, r)
	if rows != 11416 || len(keys) != 25 {
		t.Errorf("%d rows, %d features", rows, len(keys))
	}
	cfg.Split.Test, cfg.Schema = true, r.Schema()
	if rows, _, _ := read(t, open(t, cfg)); rows != 1268 {
		t.Errorf("%d test rows", rows)
	}
}

func TestMoviesNeedsData(t *testing.T) {
	ratings, movies := data(t, "movietweetings", "ratings.dat"), data(t, "movietweetings", "movies.dat")
	text := `columns: [user, movie, rating, time]
features:
  - {name: label, column: rating, kind: label, at_least: 8}
  - {name: user, kind: id}
  - {name: movie, kind: id, as: text}
  - {name: year, kind: id, column: title, match: '\((\d{4})\)$'}
  - {name: genres, kind: ids, separator: "|"}
join:
  - {file: ` + movies + `, format: ratings, columns: [movie, title, genres], key: movie}
`
	file := filepath.Join(t.TempDir(), "features.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := dataset.ReadSchema(file)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, dataset.Config{Format: "ratings", Paths: []string{ratings}, Schema: s})
	rows, positive, keys := read(t, r)
	if rows != 100_000 || positive == 0 || len(keys["user"]) != 16554 || len(keys["movie"]) != 10506 {
		t.Errorf("%d rows, %d positive, %d users, %d movies", rows, positive, len(keys["user"]), len(keys["movie"]))
	}
	if n := len(keys["year"]); n < 80 || n > 130 {
		t.Errorf("%d years", n)
	}
	if n := len(keys["genres"]); n < 20 || n > 40 {
		t.Errorf("%d genres", n)
	}
	plain := open(t, dataset.Config{Format: "ratings", Paths: []string{ratings}})
	var b dataset.Batch
	if !next(t, plain, &b) || b.Column("user") == nil || b.Column("item") == nil || b.Label[0] > 10 {
		t.Errorf("without features file: %+v", b.Features)
	}
}

func TestBooksNeedsData(t *testing.T) {
	path := data(t, "goodbooks-samples", "books.csv")
	r := open(t, dataset.Config{Format: "csv", Paths: []string{path}, Label: label(t, "average_rating>=4")})
	rows, _, keys := read(t, r)
	if rows != 99 && rows != 100 || len(keys) != 22 {
		t.Errorf("%d rows, %d features", rows, len(keys))
	}
}

func TestOpenBanditNeedsData(t *testing.T) {
	train, test := data(t, "open-bandit", "random-men.csv"), data(t, "open-bandit", "bts-men.csv")
	r := open(t, dataset.Config{Format: "csv", Paths: []string{train, test}, Label: label(t, "click")})
	if rows, positive, _ := read(t, r); rows != 20000 || positive != 46+69 {
		t.Errorf("%d rows, %d clicks", rows, positive)
	}
}
