package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"hcclps/worker/metric"
)

// The generated world: users and items by Zipf's law, as in click data. Items have
// a category and tags, users come with a device, and now and then a field is empty.
const (
	users      = 300
	items      = 200
	tags       = 40
	categories = 12
	skew       = 1.1 // exponent of the Zipf law of users and items
	noDevice   = 0.2 // share of rows without a device
	noPrice    = 0.1 // and without a price
	intercept  = -1.2
)

// devices is the device field; the first value is a missing one.
func devices() []string { return []string{"", "phone", "tablet", "laptop", "tv"} }

// Which random stream a draw belongs to, so that one does not shift another.
const (
	streamWorld = iota + 1
	streamTrain
	streamTest
)

// header names the columns of the files.
const header = "click,user,item,category,tags,device,price\n"

// world is what the labels are drawn from: a factorisation machine over what the
// files show, so that all of it can be learned from them. Numbers are by their
// effect on the logit of a click.
type world struct {
	user, item, tag []float64
	device          []float64
	taste           [][2]float64 // of a user
	kind            [][2]float64 // of a category: <taste, kind> is how much a user likes it
	screen          [][]float64  // by device and category: what is bought where
	category        []int        // of an item
	tagged          [][]int      // an item's tags
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, streamWorld))
	normals := func(n int, deviation float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = deviation * rng.NormFloat64()
		}
		return v
	}
	w := &world{user: normals(users, 0.5), item: normals(items, 0.7), tag: normals(tags, 0.4), device: normals(len(devices()), 0.4)}
	w.taste, w.kind = make([][2]float64, users), make([][2]float64, categories)
	for _, vectors := range [][][2]float64{w.taste, w.kind} {
		for i := range vectors {
			vectors[i] = [2]float64{rng.NormFloat64(), rng.NormFloat64()}
		}
	}
	for range devices() {
		w.screen = append(w.screen, normals(categories, 0.6))
	}
	w.category, w.tagged = make([]int, items), make([][]int, items)
	for i := range items {
		w.category[i] = rng.IntN(categories)
		w.tagged[i] = rng.Perm(tags)[:rng.IntN(5)]
	}
	return w
}

// impression is one row: an item that was shown to a user.
type impression struct {
	user, item, device int
	price              float64 // 0: missing
}

func (w *world) draw(rng *rand.Rand, user, item *rand.Zipf) impression {
	m := impression{user: int(user.Uint64()), item: int(item.Uint64())}
	if rng.Float64() >= noDevice {
		m.device = 1 + rng.IntN(len(w.device)-1)
	}
	if rng.Float64() >= noPrice {
		m.price = math.Ceil(100*math.Exp(3+rng.NormFloat64())) / 100
	}
	return m
}

// probability is that of a click.
func (w *world) probability(m impression) float64 {
	c := w.category[m.item]
	z := intercept + w.user[m.user] + w.item[m.item] + w.device[m.device] + w.screen[m.device][c]
	for _, t := range w.tagged[m.item] {
		z += w.tag[t]
	}
	z += w.taste[m.user][0]*w.kind[c][0] + w.taste[m.user][1]*w.kind[c][1]
	if m.price > 0 { // neither the cheapest nor the dearest
		z += 0.8 * math.Cos(1.5*(math.Log(m.price)-3))
	}
	return 1 / (1 + math.Exp(-z))
}

// write appends the row to a file.
func (w *world) write(to io.Writer, m impression, click bool) {
	label := 0
	if click {
		label = 1
	}
	fmt.Fprintf(to, "%d,u%d,i%d,c%d,", label, m.user, m.item, w.category[m.item])
	for i, t := range w.tagged[m.item] {
		if i > 0 {
			fmt.Fprint(to, "|")
		}
		fmt.Fprintf(to, "t%d", t)
	}
	price := ""
	if m.price > 0 {
		price = strconv.FormatFloat(m.price, 'f', 2, 64)
	}
	fmt.Fprintf(to, ",%s,%s\n", devices()[m.device], price)
}

// generate writes train.csv and test.csv into dir. bestAUC is the AUC on the test
// rows of the probabilities their labels were drawn with: no model can expect
// more. The files are a function of the other arguments.
func generate(dir string, seed uint64, rows, testRows int) (train, test string, bestAUC float64, err error) {
	if rows < 1 || testRows < 1 {
		return "", "", 0, fmt.Errorf("generate clicks: %d train and %d test rows: want 1 or more of each", rows, testRows)
	}
	w := newWorld(seed)
	train, test = filepath.Join(dir, "train.csv"), filepath.Join(dir, "test.csv")
	if _, err = w.file(train, rand.New(rand.NewPCG(seed, streamTrain)), rows); err != nil {
		return "", "", 0, err
	}
	truth, err := w.file(test, rand.New(rand.NewPCG(seed, streamTest)), testRows)
	if err != nil {
		return "", "", 0, err
	}
	return train, test, truth.AUC(), nil
}

// file writes a file of n rows and judges the world by its own labels.
func (w *world) file(path string, rng *rand.Rand, n int) (truth *metric.Binary, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create click log: %w", err)
	}
	defer func() {
		if cerr := f.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close click log: %w", cerr))
		}
	}()
	out := bufio.NewWriter(f)
	out.WriteString(header)
	user, item := rand.NewZipf(rng, skew, 10, users-1), rand.NewZipf(rng, skew, 10, items-1)
	truth = &metric.Binary{}
	for range n {
		m := w.draw(rng, user, item)
		p := w.probability(m)
		click := rng.Float64() < p
		w.write(out, m, click)
		label := float32(0)
		if click {
			label = 1
		}
		truth.Add(float32(p), label)
	}
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("write click log %s: %w", path, err)
	}
	return truth, nil
}
