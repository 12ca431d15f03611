package doctor

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseNPUSMI(t *testing.T) {
	got := parseNPUSMI([]byte(recorded(t, "910b/npu-smi-info.txt")))
	if len(got) != 8 || got[3] != (npu{3, "910B3", "Alarm", 3352, 65536}) || got[5].used != 64001 {
		t.Errorf("eight 910B3: %+v", got)
	}
	got = parseNPUSMI([]byte(recorded(t, "a3/npu-smi-info.txt")))
	ids := []int{}
	for _, n := range got {
		ids = append(ids, n.id)
	}
	if !slices.Equal(ids, []int{0, 1, 2, 3}) {
		t.Errorf("two NPUs of two chips: %+v", got)
	}
	// Only the line of the NPU before a chip's belongs to it.
	const broken = "| 0     910B3   | OK  | 1 |\n| text |\n| 0  | 0000:C1:00.0  | 0  1 / 2  |\n| 7 | 0000:C2:00.0  | 3 / 4 |\n"
	if got := parseNPUSMI([]byte(broken)); len(got) != 1 || got[0] != (npu{0, "910B3", "OK", 1, 2}) {
		t.Errorf("a table with holes: %+v", got)
	}
}

func TestParseHCCN(t *testing.T) {
	got := parseHCCN([]byte(recorded(t, "910b/hccn-2.txt")))
	if want := (deviceNetwork{"UP", "Receive timeout", netip.MustParseAddr("192.168.101.101"), "0"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := parseHCCN([]byte("Cmd executed failed")); got != (deviceNetwork{}) {
		t.Errorf("a failure gave %+v", got)
	}
}

func FuzzParseTools(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, n := range parseNPUSMI(out) {
			if n.name == "" || n.health == "" {
				t.Errorf("an NPU without name or health: %+v", n)
			}
		}
		if d := parseHCCN(out); d.tls != "" && d.tls != "0" && d.tls != "1" {
			t.Errorf("TLS switch %q", d.tls)
		}
	})
}
