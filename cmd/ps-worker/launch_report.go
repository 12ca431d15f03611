package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// report prints what the workers report, with what launch did added to it, as JSON if they were asked for that.
func (l *launcher) report(k *killer, w *watcher) error {
	reports, err := l.readReports()
	if err != nil {
		return err
	}
	if len(reports) == 0 { // the program leaves none
		_, err := l.c.App.Writer.Write(l.procs.json)
		return err
	}
	r, err := merged(reports)
	if err != nil {
		return err
	}
	alone := r.Rank != 0 // nobody has printed it
	if alone {
		if l.procs.broken != nil {
			return fmt.Errorf("no worker ended as rank 0, which evaluates: %w", l.procs.broken)
		}
		if r.Save != "" {
			return fmt.Errorf("rank 0 was killed before its report: whether it had saved the model to %s is not known; train again, with --checkpoint-dir if the job is long", r.Save)
		}
		l.procs.log.Warn("rank 0 was killed after the last step and before its report: this is that of the next rank, without the test part", "rank", r.Rank, "worker", r.Worker)
		r.Reproducible, r.Irreproducible = false, "rank 0 was killed, and what it had counted is gone"
	}
	r.Save = ""
	r.LeaderKills, r.WorkerKills, r.Recovery = &k.leaders, &k.workerKill, k.recovery()
	elections := uint64(0)
	if w != nil {
		elections = w.terms
	}
	r.Elections = &elections
	if r.AsJSON {
		r.AsJSON = false
		return json.NewEncoder(l.c.App.Writer).Encode(r)
	}
	if alone {
		if err := r.text(l.c.App.Writer); err != nil {
			return err
		}
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

// merged is the report of the rank that was 0 at the end, which knows what the job came to, with what the others counted added to it. If that was killed
// when all had trained, it is that of the lowest rank there is.
func merged(reports []report) (report, error) {
	reports = slices.SortedStableFunc(slices.Values(reports), func(a, b report) int { return cmp.Compare(a.Rank, b.Rank) })
	r := reports[0]
	for _, o := range reports[1:] {
		r.Rows += o.Rows
		r.SamplesPerS += o.SamplesPerS
		r.Retried += o.Retried
		r.Duplicate += o.Duplicate
		r.PeakRSS = max(r.PeakRSS, o.PeakRSS)
		r.LongestGapMS = max(r.LongestGapMS, o.LongestGapMS)
		if o.Digest != "" && o.Digest != r.Digest {
			return r, fmt.Errorf("rank %d ends with parameters of digest %s, rank %d with %s: workers have come apart", o.Rank, o.Digest, r.Rank, r.Digest)
		}
	}
	return r, nil
}

// readReports reads those that workers have left; none where the program leaves none.
func (l *launcher) readReports() ([]report, error) {
	var reports []report
	for i := range l.c.Int("workers") {
		r, err := l.readReport(i)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func (l *launcher) readReport(process int) (report, error) {
	var r report
	path := filepath.Join(l.dir, "reports", fmt.Sprintf("rank-%d.json", process))
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}
