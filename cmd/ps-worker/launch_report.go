package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// report prints rank 0's report with what launch did and what the other ranks
// counted added to it, as JSON if the workers print JSON.
func (l *launcher) report(k *killer, w *watcher) error {
	r, err := l.readReport(0)
	if errors.Is(err, os.ErrNotExist) { // the program leaves no reports
		_, err := l.c.App.Writer.Write(l.procs.json)
		return err
	}
	if err != nil {
		return err
	}
	for rank := 1; rank < l.c.Int("workers"); rank++ {
		o, err := l.readReport(rank)
		if err != nil {
			return err
		}
		r.Rows += o.Rows
		r.SamplesPerS += o.SamplesPerS
		r.Retried += o.Retried
		r.Duplicate += o.Duplicate
		r.PeakRSS = max(r.PeakRSS, o.PeakRSS)
		r.LongestGapMS = max(r.LongestGapMS, o.LongestGapMS)
		if o.Digest != "" && o.Digest != r.Digest {
			return fmt.Errorf("rank %d ends with parameters of digest %s, rank 0 with %s: workers have come apart", rank, o.Digest, r.Digest)
		}
	}
	r.LeaderKills, r.WorkerKills, r.Recovery = &k.leaders, &k.workerKill, k.recovery()
	elections := uint64(0)
	if w != nil {
		elections = w.terms
	}
	r.Elections = &elections
	if l.procs.json != nil {
		return json.NewEncoder(l.c.App.Writer).Encode(r)
	}
	if k.leaders+k.workerKill == 0 {
		return nil
	}
	fmt.Fprintf(l.c.App.Writer, "kills         %d leaders, %d workers; %d elections\n", k.leaders, k.workerKill, elections)
	if r.Recovery != nil {
		fmt.Fprintf(l.c.App.Writer, "first push after a leader kill  median %d ms, worst %d ms\n", r.Recovery.Median, r.Recovery.Worst)
	}
	return nil
}

func (l *launcher) readReport(rank int) (report, error) {
	var r report
	path := filepath.Join(l.dir, "reports", fmt.Sprintf("rank-%d.json", rank))
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}
