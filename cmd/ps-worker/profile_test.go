package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hcclps/internal/trace"
)

// TestProfileOfAJob trains with servers in this process, and reads what that has written.
func TestProfileOfAJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	merged := filepath.Join(t.TempDir(), "merged.json")
	code, stdout, stderr := command(t.Context(), "train", "--data", clickData(t), "--embedded", "1", "--replicas", "0", "--epochs", "1", "--batch", "100", "--profile", path)
	if code != 0 {
		t.Fatalf("train: %d\n%s\n%s", code, stdout, stderr)
	}
	if !strings.Contains(stderr, "compute ") {
		t.Errorf("no shares of time in the progress line: %q", stderr)
	}
	code, stdout, stderr = command(t.Context(), "profile", "--json", "--merge", merged, path)
	if code != 0 {
		t.Fatalf("profile: %d\n%s\n%s", code, stdout, stderr)
	}
	var got profiled
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Processes != 1 || got.Steps != 40 || got.Unmatched != 0 || got.Lost != 0 {
		t.Errorf("%d processes, %d steps, %d unmatched, %d lost, want 1, 40, 0, 0", got.Processes, got.Steps, got.Unmatched, got.Lost)
	}
	var seen []string
	for _, r := range got.Rows {
		seen = append(seen, r.Category+"/"+r.Name)
		if r.Count == 0 || r.P50US > r.P99US || r.P99US > r.MaxUS || r.TotalUS < r.MaxUS {
			t.Errorf("%+v", r)
		}
	}
	for _, want := range []string{"train/step", "train/forward", "train/backward", "data/read", "push/push", "pull/pull", "server/apply"} {
		if !strings.Contains(strings.Join(seen, " "), want) {
			t.Errorf("%s is not among %v", want, seen)
		}
	}
	whole, err := trace.ReadFile(merged)
	if err != nil {
		t.Fatal(err)
	}
	if err := trace.Check(whole, true); err != nil {
		t.Error(err)
	}
	if code, stdout, _ = command(t.Context(), "profile", merged); code != 0 || !strings.Contains(stdout, "1 processes, 40 steps of ") || !strings.Contains(stdout, "100.0 %") {
		t.Errorf("profile of the merged trace: %d\n%s", code, stdout)
	}
}

// TestProfileRefuses says which file is wrong, and where.
func TestProfileRefuses(t *testing.T) {
	f := trace.Flight{Rank: 0, World: 2, Why: "x"}
	flight := filepath.Join(t.TempDir(), "flight.json")
	if err := f.WriteFile(flight); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join("..", "..", "internal", "trace", "testdata", "worker.json")
	text := write(t, "text.json", "{\n\"a\": 1,\n!")
	overlap := write(t, "overlap.json", `{"otherData":{"format":"hcclps trace","version":1,"processes":[{"id":0,"name":"w"}]},"traceEvents":[
{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"t"}},
{"ph":"X","name":"a","pid":0,"tid":1,"ts":0,"dur":2},
{"ph":"X","name":"b","pid":0,"tid":1,"ts":1,"dur":2}
]}`)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "want the files"},
		{[]string{filepath.Join(t.TempDir(), "none.json")}, 1, "none.json: no such file"},
		{[]string{text}, 1, "text.json: no trace: line 3, column 1"},
		{[]string{good, text}, 1, "text.json: no trace"},
		{[]string{good, flight}, 2, "at once"},
		{[]string{overlap}, 1, "beyond the end at 2µs"},
		{[]string{"--merge", filepath.Join(t.TempDir(), "no", "m.json"), good}, 1, "m.json"},
	} {
		code, stdout, stderr := command(t.Context(), append([]string{"profile"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("profile %q: exit %d, %q, %q, want %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
	code, _, stderr := command(t.Context(), "train", "--data", text, "--embedded", "1", "--profile", filepath.Join(t.TempDir(), "no", "out.json"))
	if code != 2 || !strings.Contains(stderr, "is no folder") {
		t.Errorf("train --profile into no folder: %d, %q", code, stderr)
	}
}

// TestFlightsAreCompared prints where the ranks were.
func TestFlightsAreCompared(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for rank, name := range []string{"worker-0", "worker-1"} {
		f := trace.Flight{Process: name, Rank: rank, World: 2, Written: time.Unix(1e9, 0).UTC(), Why: "no progress"}
		for seq := range uint64(9) {
			if rank == 1 && seq == 8 {
				break
			}
			o := trace.Operation{Group: "0", Seq: seq, Call: "#" + string(rune('0'+seq)) + " barrier (tree)", Op: "barrier", Started: time.Unix(1e9, 0).UTC()}
			if seq < 8 {
				o.Ended = o.Started.Add(1500 * time.Microsecond)
			}
			f.Operations = append(f.Operations, o)
		}
		files = append(files, filepath.Join(dir, name))
		if err := f.WriteFile(files[rank]); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := command(t.Context(), append([]string{"profile"}, files...)...)
	if code != 0 {
		t.Fatalf("profile: %d, %s", code, stderr)
	}
	for _, want := range []string{
		"worker-0, rank 0 of 2, at 2001-09-09T01:46:40Z: no progress",
		"1.5ms  ended", "-      under way",
		"rank 1 has not begun #8 barrier (tree), in which rank 0 is: its last was #7 barrier (tree), ended",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "#2 barrier") {
		t.Errorf("more than the last operations in\n%s", stdout)
	}
	code, stdout, _ = command(t.Context(), append([]string{"profile", "--json"}, files...)...)
	var got struct {
		Flights  []trace.Flight `json:"flights"`
		Findings []string       `json:"findings"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || len(got.Flights) != 2 || len(got.Findings) != 2 {
		t.Errorf("profile --json: %d, %v, %s", code, err, stdout)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}
