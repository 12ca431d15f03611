package metric_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"hcclps/worker/metric"
)

func samples() (b metric.Binary, r metric.Regression, g metric.Grouped) {
	for i := range 5 {
		s := float32(i) / 4
		b.Add(s, float32(i%2))
		r.Add(s, 1)
		g.Add(uint64(i/2), s, float32(i%2))
	}
	return b, r, g
}

// TestWireForm pins the bytes: workers of two versions may merge.
func TestWireForm(t *testing.T) {
	b, r, g := samples()
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"binary": {b.Append(nil), "0101" + "0200000000000000" + "0300000000000000" + "0000803e" + "0000403f" + "00000000" + "0000003f" + "0000803f"},
		"regression": {r.Append(nil), "0201" + "0500000000000000" +
			"0100000000000000" + "0000000000000000" + "000000000000fe3f" + "0100000000000000" + "0000000000000000" + "0000000000000440"},
		"grouped": {g.Append(nil), "0301" + "0500000000000000" +
			"0000000000000000" + "00000000" + "00000000" + "0000000000000000" + "0000803e" + "0000803f" +
			"0100000000000000" + "0000003f" + "00000000" + "0100000000000000" + "0000403f" + "0000803f" + "0200000000000000" + "0000803f" + "00000000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// decoders run one of the decoders and encode again.
func decoders() []func([]byte) ([]byte, error) {
	return []func([]byte) ([]byte, error){
		func(b []byte) ([]byte, error) {
			v, err := metric.DecodeBinary(b)
			if err != nil {
				return nil, err
			}
			v.AUC()
			v.PRAUC()
			return v.Append(nil), nil
		},
		func(b []byte) ([]byte, error) {
			v, err := metric.DecodeRegression(b)
			if err != nil {
				return nil, err
			}
			v.RMSE()
			return v.Append(nil), nil
		},
		func(b []byte) ([]byte, error) {
			v, err := metric.DecodeGrouped(b)
			if err != nil {
				return nil, err
			}
			v.NDCG(3)
			v.GAUC()
			return v.Append(nil), nil
		},
	}
}

func TestDecodeRefuses(t *testing.T) {
	b, r, g := samples()
	for i, good := range [][]byte{b.Append(nil), r.Append(nil), g.Append(nil)} {
		decode := decoders()[i]
		if _, err := decode(good); err != nil {
			t.Fatal(err)
		}
		for n := range good {
			if _, err := decode(good[:n]); err == nil {
				t.Errorf("decoder %d takes %d of %d bytes", i, n, len(good))
			}
		}
		bad := map[string][]byte{
			"longer":      append(bytes.Clone(good), 0),
			"other kind":  append([]byte{9}, good[1:]...),
			"version":     append([]byte{good[0], 2}, good[2:]...),
			"count":       append([]byte{good[0], 1, 255, 255, 255, 255, 255, 255, 255, 255}, good[10:]...),
			"half a word": append([]byte{good[0], 1, 0, 0, 0, 0, 0, 0, 0, 128}, good[10:]...),
		}
		if i == 1 { // there the first number is no count of what follows
			delete(bad, "count")
			delete(bad, "half a word")
			huge := bytes.Clone(good)
			copy(huge[26:], "\x00\x00\x00\x00\x00\x00\xef\x7f")
			bad["a part too large"] = huge
			inf := bytes.Clone(good)
			copy(inf[26:], "\x00\x00\x00\x00\x00\x00\xf0\x7f")
			bad["an infinite part"] = inf
			special := bytes.Clone(good)
			special[18] = 1
			bad["a finite special value"] = special
		}
		for name, data := range bad {
			if _, err := decode(data); err == nil || !strings.HasPrefix(err.Error(), "decode ") {
				t.Errorf("decoder %d, %s: %v", i, name, err)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, r, g := samples()
	f.Add(b.Append(nil))
	f.Add(r.Append(nil))
	f.Add(g.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, decode := range decoders() {
			once, err := decode(data)
			if err != nil {
				continue
			}
			twice, err := decode(once)
			if err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("%x decodes to %x, that to %x: %v", data, once, twice, err)
			}
		}
	})
}

func TestRegressionIsExact(t *testing.T) {
	// Sums of float64 in this order and in the other differ.
	scores := []float32{1e15, 1, -1e15, 3e-8, 1e15, -2, 0.1}
	var forward, backward metric.Regression
	for i := range scores {
		forward.Add(scores[i], 0)
		backward.Add(scores[len(scores)-1-i], 0)
	}
	if forward.MAE() != backward.MAE() || forward.RMSE() != backward.RMSE() {
		t.Errorf("%v %v, backward %v %v", forward.MAE(), forward.RMSE(), backward.MAE(), backward.RMSE())
	}
	var inf metric.Regression
	inf.Add(float32(math.Inf(1)), 0)
	if !math.IsInf(inf.RMSE(), 1) {
		t.Errorf("RMSE of an infinite score is %v", inf.RMSE())
	}
	var none metric.Regression
	if !math.IsNaN(none.RMSE()) || !math.IsNaN(none.MAE()) || none.Rows() != 0 {
		t.Error("no rows should give NaN")
	}
}

func TestGroupedByHand(t *testing.T) {
	var g metric.Grouped
	if !math.IsNaN(g.GAUC()) || !math.IsNaN(g.NDCG(5)) {
		t.Error("no rows should give NaN")
	}
	// User 1: one of two tied rows is positive. User 2: nothing positive.
	g.Add(1, 0.5, 1)
	g.Add(1, 0.5, 0)
	g.Add(2, 0.9, 0)
	if g.HitRate(1) != 0.5 || g.Recall(1) != 0.5 || g.Recall(2) != 1 || g.HitRate(0) != 0 || g.GAUC() != 0.5 {
		t.Errorf("%v %v %v %v %v", g.HitRate(1), g.Recall(1), g.Recall(2), g.HitRate(0), g.GAUC())
	}
	if got, want := g.NDCG(2), (1+1/math.Log2(3))/2; math.Abs(got-want) > 1e-15 {
		t.Errorf("NDCG %v, want %v", got, want)
	}
	g.Add(3, float32(math.NaN()), 1)
	if !math.IsNaN(g.GAUC()) || !math.IsNaN(g.HitRate(1)) {
		t.Error("a NaN score should give NaN")
	}
}
