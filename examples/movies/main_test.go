package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMoviesNeedsData asks for little less than the best there is: in numpy, means
// of users and movies have an RMSE of 1.546, logistic regression an AUC of 0.812.
func TestMoviesNeedsData(t *testing.T) {
	root := os.Getenv("HCCLPS_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir := filepath.Join(root, folder)
	if _, err := find(dir); err != nil {
		t.Skipf("set HCCLPS_DATA to the folder of real data: %v", err)
	}
	rmse, auc, rows := 1.56, 0.80, 10_000
	if testing.Short() {
		dir = short(t, dir)
		rmse, auc, rows = 1.80, 0.65, 1000
	}
	r, err := run(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if !(r.rmse <= rmse) || !(r.auc >= auc) || r.rows != rows {
		t.Errorf("%+v: want RMSE at most %.2f, AUC at least %.2f, %d rows", r, rmse, auc, rows)
	}
}

// short makes a folder with the first 10,000 ratings.
func short(t *testing.T, dir string) string {
	t.Helper()
	small := t.TempDir()
	for _, name := range []string{ratings, movies} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == ratings {
			b = bytes.Join(bytes.SplitAfterN(b, []byte("\n"), 10_001)[:10_000], nil)
		}
		if err := os.WriteFile(filepath.Join(small, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return small
}

// TestMadeUpRatings needs no data: ratings follow user, movie and genre, with
// noise of deviation 1, and both models have to find that out.
func TestMadeUpRatings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	genres := []string{"Comedy", "Drama", "Comedy|War", "Drama|War", ""}
	like := []float64{1, -1, 0.5, -2, 0}
	write(t, filepath.Join(dir, movies), func(w io.Writer) {
		for i := range 100 {
			fmt.Fprintf(w, "%07d::Film %d: the \"first\" (%d)::%s\n", i, i, 1950+i/2, genres[i%len(genres)])
		}
	})
	deviation := 0.0
	const rows = 5000
	write(t, filepath.Join(dir, ratings), func(w io.Writer) {
		for range rows {
			user, movie := rng.IntN(200), rng.IntN(100)
			rating := math.Round(7 + math.Sin(float64(user)) + like[movie%len(like)] + rng.NormFloat64())
			rating = min(max(rating, 0), 10)
			deviation += (rating - 7) * (rating - 7) / rows
			fmt.Fprintf(w, "%d::%07d::%.0f::1365029107\n", user, movie, rating)
		}
	})
	r, err := run(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, deviation %.3f", r, math.Sqrt(deviation))
	if !(r.rmse < 0.85*math.Sqrt(deviation)) || !(r.auc > 0.75) || r.rows != rows/every {
		t.Errorf("%+v of ratings with deviation %.3f", r, math.Sqrt(deviation))
	}
}

func write(t *testing.T, path string, fill func(io.Writer)) {
	t.Helper()
	var b bytes.Buffer
	fill(&b)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv("HCCLPS_DATA", "")
	if _, err := run(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--data") || !strings.Contains(err.Error(), "HCCLPS_DATA") {
		t.Errorf("neither flag nor environment: %v", err)
	}
	root := t.TempDir()
	t.Setenv("HCCLPS_DATA", root)
	if err := os.Mkdir(filepath.Join(root, folder), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ratings, movies} {
		path := filepath.Join(root, folder, name)
		if _, err := run(t.Context(), ""); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "MovieTweetings") {
			t.Errorf("no %s: %v", name, err)
		}
		if err := os.WriteFile(path, []byte("1::0000001::8::1365029107\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
