package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/collective"
)

// published is a table of AllReduce: the milliseconds that some algorithms take, by size.
type published struct {
	algorithms []collective.Algorithm
	sizes      []int
	millis     [][]float64 // by size, by algorithm
}

// mostTable bounds the file.
const mostTable = 1 << 20

// calibrate fits the cost model to a table and says how far off it is.
func calibrate(c *cli.Context) error {
	f, err := os.Open(c.String("calibrate"))
	if err != nil {
		return fmt.Errorf("read table of --calibrate: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	table, err := readPublished(io.LimitReader(f, mostTable))
	if err != nil {
		return fmt.Errorf("read table %s: %w", f.Name(), err)
	}
	fit, err := newFitted(table, c.Int("ranks"))
	if err != nil {
		return fmt.Errorf("fit table %s: %w", f.Name(), err)
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(fit)
	}
	return fit.write(c.App.Writer)
}

// readPublished reads lines of a size and a time for each algorithm, in milliseconds, below a head of their names.
func readPublished(r io.Reader) (*published, error) {
	in := csv.NewReader(r)
	in.TrimLeadingSpace, in.Comment = true, '#'
	lines, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) < 2 || len(lines[0]) < 2 || !strings.EqualFold(lines[0][0], "size") {
		return nil, fmt.Errorf("want a head such as size,ring,mesh,halving-doubling, and a line for each size below")
	}
	t := &published{}
	for _, name := range lines[0][1:] {
		a, err := algorithmNamed(name)
		if err != nil {
			return nil, err
		}
		t.algorithms = append(t.algorithms, a)
	}
	for i, line := range lines[1:] {
		n, err := decimalBytes(line[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		var row []float64
		for _, s := range line[1:] {
			ms, err := strconv.ParseFloat(s, 64)
			if err != nil || !(ms > 0) || math.IsInf(ms, 0) {
				return nil, fmt.Errorf("line %d: %q, want a time in milliseconds", i+2, s)
			}
			row = append(row, ms)
		}
		t.sizes, t.millis = append(t.sizes, n), append(t.millis, row)
	}
	return t, nil
}

func algorithmNamed(name string) (collective.Algorithm, error) {
	name = strings.TrimSpace(name)
	if strings.EqualFold(name, "halving-doubling") {
		return collective.HalvingDoubling, nil
	}
	parsed, err := collective.ParseAlgorithms("allreduce=" + name)
	if err != nil {
		return 0, err
	}
	return parsed[collective.AllReduce].Level1, nil
}

// decimalBytes reads a size; beside KiB, MiB and GiB articles have KB, MB and GB, which are powers of ten.
func decimalBytes(s string) (int, error) {
	number, unit := strings.TrimSpace(s), 1.0
	for suffix, u := range map[string]float64{"KB": 1e3, "MB": 1e6, "GB": 1e9} {
		if before, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = strings.TrimSpace(before), u
			break
		}
	}
	if unit == 1 {
		n, err := program.Bytes("calibrate", number)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("size %q, want one such as 16MB or 16MiB", s)
		}
		return int(n), nil
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || !(x*unit >= 1) || x*unit > 1<<50 {
		return 0, fmt.Errorf("size %q, want one such as 16MB or 16MiB", s)
	}
	return int(x * unit), nil
}

// fitted is what came of it. The times are milliseconds.
type fitted struct {
	Ranks int          `json:"ranks"`
	One   fittedLink   `json:"one"`  // for all algorithms
	Each  []fittedLink `json:"each"` // for each by itself
	Cells []fittedCell `json:"cells"`
}

type fittedLink struct {
	Algorithm string          `json:"algo,omitempty"`
	Link      collective.Link `json:"link"`
	Off       float64         `json:"off"` // root of the mean square of relative errors
}

type fittedCell struct {
	Size    int       `json:"size"`
	Algo    []string  `json:"algo"`
	Millis  []float64 `json:"ms"`
	One     []float64 `json:"one"`  // predicted by the link of all
	Each    []float64 `json:"each"` // by that of the algorithm
	Fastest string    `json:"fastest"`
	Chosen  string    `json:"chosen"` // by the predictions of Each
	Thumb   string    `json:"thumb"`  // by the rule of thumb
}

func newFitted(t *published, ranks int) (*fitted, error) {
	f := &fitted{Ranks: ranks}
	var all []collective.Sample
	by := make([][]collective.Sample, len(t.algorithms))
	for i, n := range t.sizes {
		for j, a := range t.algorithms {
			s := collective.Sample{Algorithm: a, Bytes: n, Seconds: t.millis[i][j] / 1e3}
			all, by[j] = append(all, s), append(by[j], s)
		}
	}
	link := func(name string, samples []collective.Sample) (fittedLink, error) {
		l, err := collective.Fit(ranks, samples)
		sum := 0.0
		for _, s := range samples {
			e := l.Predict(s.Algorithm, ranks, s.Bytes)/s.Seconds - 1
			sum += e * e
		}
		return fittedLink{name, l, math.Sqrt(sum / float64(len(samples)))}, err
	}
	var err error
	if f.One, err = link("", all); err != nil {
		return nil, err
	}
	for j, a := range t.algorithms {
		l, err := link(a.String(), by[j])
		if err != nil {
			return nil, err
		}
		f.Each = append(f.Each, l)
	}
	for i, n := range t.sizes {
		f.Cells = append(f.Cells, f.cell(t, i, n))
	}
	return f, nil
}

func (f *fitted) cell(t *published, i, n int) fittedCell {
	c := fittedCell{Size: n, Millis: t.millis[i], Thumb: collective.RuleOfThumb(n, false).String()}
	fastest, chosen := 0, 0
	for j, a := range t.algorithms {
		c.Algo = append(c.Algo, a.String())
		c.One = append(c.One, 1e3*f.One.Link.Predict(a, f.Ranks, n))
		c.Each = append(c.Each, 1e3*f.Each[j].Link.Predict(a, f.Ranks, n))
		if c.Millis[j] < c.Millis[fastest] {
			fastest = j
		}
		if c.Each[j] < c.Each[chosen] {
			chosen = j
		}
	}
	c.Fastest, c.Chosen = c.Algo[fastest], c.Algo[chosen]
	return c
}

// gigabytes is a rate, or that the fit needs no limit there.
func gigabytes(rate float64) string {
	if rate > 1e15 {
		return "any"
	}
	return fmt.Sprintf("%.3g", rate/1e9)
}

// write is for people.
func (f *fitted) write(w io.Writer) error {
	var b strings.Builder
	say := func(what string, l fittedLink) {
		fmt.Fprintf(&b, "%-9s alpha %10v  bandwidth %6s GB/s to %d at once  reduce %6s GB/s  off by %.1f %%\n",
			what, l.Link.Alpha, gigabytes(l.Link.Bandwidth), l.Link.Ports, gigabytes(l.Link.Reduce), 100*l.Off)
	}
	say("all", f.One)
	for _, l := range f.Each {
		say(l.Algorithm, l)
	}
	fmt.Fprintf(&b, "\n%12s", "SIZE")
	for _, a := range f.Cells[0].Algo {
		fmt.Fprintf(&b, " | %8s %9s %7s %9s %7s", a, "one link", "off", "its own", "off")
	}
	fmt.Fprintf(&b, " | %-8s %-8s %s\n", "FASTEST", "CHOSEN", "THUMB")
	for _, c := range f.Cells {
		fmt.Fprintf(&b, "%12d", c.Size)
		for j, ms := range c.Millis {
			fmt.Fprintf(&b, " | %8.4g %9.3g %+6.0f%% %9.3g %+6.0f%%", ms, c.One[j], 100*(c.One[j]/ms-1), c.Each[j], 100*(c.Each[j]/ms-1))
		}
		fmt.Fprintf(&b, " | %-8s %-8s %s\n", c.Fastest, c.Chosen, c.Thumb)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
