package main

import (
	"encoding/json"
	"strings"
	"testing"

	"hcclps/compress"
)

func TestBenchOfCodecs(t *testing.T) {
	code, stdout, stderr := command(t.Context(), "bench", "compress", "--sizes", "64KiB", "--time", "1ms", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	for i, name := range compress.Names() {
		var r codecSpeed
		if err := json.Unmarshal([]byte(lines[i]), &r); err != nil || r.Codec != name || r.Size != 64<<10 || r.Encode <= 0 || r.Decode <= 0 || r.Error > 1 {
			t.Errorf("%s: %v", lines[i], err)
		}
		if least := map[string]float64{"onebit": 28, "twobit": 15, "int8": 3.9, "fp16": 2, "topk": 50}[name]; r.Ratio < least {
			t.Errorf("%s: a ratio of %v, want %v", name, r.Ratio, least)
		}
	}
	if code, stdout, _ := command(t.Context(), "bench", "compress", "--sizes", "4KiB", "--codecs", "onebit", "--time", "1ms"); code != 0 || !strings.Contains(stdout, "ratio") {
		t.Errorf("exit %d: %s", code, stdout)
	}
	for _, args := range [][]string{{"--codecs", "gzip"}, {"--sizes", "2"}, {"--time", "0s"}, {"more"}} {
		if code, _, stderr := command(t.Context(), append([]string{"bench", "compress"}, args...)...); code != 2 {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
}
