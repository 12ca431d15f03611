package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"hcclps/worker"
)

// report is the line that --json prints.
type report struct {
	Job            string             `json:"job"`
	Worker         string             `json:"worker"`
	Rank           int                `json:"rank"`
	Mode           string             `json:"mode"`
	Model          string             `json:"model"`
	Rows           uint64             `json:"rows"`
	Epochs         int                `json:"epochs"`
	Steps          uint64             `json:"steps"`
	TrainLoss      float64            `json:"train_loss"`
	LogLoss        *float64           `json:"logloss,omitempty"`
	AUC            *float64           `json:"auc,omitempty"`
	Accuracy       *float64           `json:"accuracy,omitempty"`
	RMSE           *float64           `json:"rmse,omitempty"`
	MAE            *float64           `json:"mae,omitempty"`
	Metrics        map[string]float64 `json:"metrics,omitempty"`
	SamplesPerS    float64            `json:"samples_per_s"`
	Seconds        float64            `json:"seconds"`
	PeakRSS        int64              `json:"peak_rss_bytes"`
	Retried        uint64             `json:"retried_pushes"`
	Duplicate      uint64             `json:"duplicate_pushes"`
	Applied        uint64             `json:"applied_pushes"`
	Batches        uint64             `json:"batches"`
	PushBytes      uint64             `json:"push_bytes"`     // of this worker's gradients, as they were on the wire
	PushBytesRaw   uint64             `json:"push_bytes_raw"` // without compression
	ResumedStep    uint64             `json:"resumed_step"`
	LongestGapMS   int64              `json:"longest_gap_ms"`
	Checkpoints    uint64             `json:"checkpoints,omitempty"`     // that this worker has written or asked for
	CheckpointStep uint64             `json:"checkpoint_step,omitempty"` // of the last
	Digest         string             `json:"digest,omitempty"`
	Reproducible   bool               `json:"reproducible"`
	Irreproducible string             `json:"why_not,omitempty"`
	AsJSON         bool               `json:"as_json,omitempty"` // launch is to print it so
	Save           string             `json:"save,omitempty"`    // for launch: where rank 0 saves the model before it reports
	// Added by launch.
	LeaderKills *int      `json:"leader_kills,omitempty"`
	WorkerKills *int      `json:"worker_kills,omitempty"`
	Elections   *uint64   `json:"elections,omitempty"`
	Recovery    *recovery `json:"recovery_ms,omitempty"`
}

// report gathers what the run shows; rank 0 waits for all workers, evaluates,
// and counts what the servers applied.
func (j *job) report(ctx context.Context, client *worker.Client, m worker.Model, rep worker.Report, bar *progress) (report, error) {
	s := client.Stats()
	r := report{
		Job: j.cfg.Job, Worker: j.cfg.Worker, Rank: client.Rank(), Mode: j.cfg.Mode.String(), Model: j.c.String("model"), Rows: rep.Rows, Epochs: j.model.Epochs, Steps: rep.Steps, TrainLoss: rep.Loss,
		SamplesPerS: float64(rep.Rows) / max(rep.Elapsed.Seconds(), 1e-9), Retried: s.RetriedPushes, Duplicate: s.DuplicatePushes,
		PushBytes: s.PushedBytes, PushBytesRaw: s.PushedBytesRaw,
		ResumedStep: rep.Resumed, LongestGapMS: bar.longest.Milliseconds(), Checkpoints: s.Checkpoint.Made, CheckpointStep: s.Checkpoint.Step, PeakRSS: peakRSS(),
	}
	var err error
	switch {
	case client.Rank() == 0:
		if err = j.count(ctx, client, &r); err == nil {
			err = j.judge(ctx, client, m, &r)
		}
	case j.cfg.Mode == worker.AllReduce: // launch compares, and takes this report if it has none of rank 0
		err = j.count(ctx, client, &r)
	case j.cfg.Mode == worker.Hybrid && os.Getenv(reportDirEnv) != "":
		r.Digest, err = client.Digest(ctx)
	}
	if err != nil {
		return r, err
	}
	r.Seconds = time.Since(j.start).Seconds()
	return r, nil
}

// count adds what the parameters are, and how they came about.
func (j *job) count(ctx context.Context, client *worker.Client, r *report) (err error) {
	if r.Digest, err = client.Digest(ctx); err != nil {
		return err
	}
	audit, err := client.Audit(ctx)
	if err != nil {
		return err
	}
	r.Batches, r.Applied = audit.Batches, audit.Applied
	switch {
	case j.cfg.Sync != worker.BSP && j.cfg.World > 1:
		r.Irreproducible = "workers are not in step: --sync " + j.c.String("sync")
	case j.cfg.Compress.Automatic():
		r.Irreproducible = "codecs are chosen by what is measured: --compress " + j.c.String("compress")
	case audit.Rebuilds > 0:
		r.Irreproducible = fmt.Sprintf("workers were lost or came in: %d rebuilds", audit.Rebuilds)
	case len(audit.Restarted) > 0:
		r.Irreproducible = fmt.Sprintf("restarted in mid-run: %v", audit.Restarted)
	default:
		r.Reproducible = true
	}
	return nil
}

// judge adds what the test part says.
func (j *job) judge(ctx context.Context, client *worker.Client, m worker.Model, r *report) error {
	if j.test == nil {
		return nil
	}
	got, err := client.Evaluate(ctx, m, j.test, j.how.Metrics...)
	if err != nil {
		return err
	}
	r.LogLoss, r.AUC, r.Accuracy = value(got, "logloss"), value(got, "auc"), value(got, "accuracy")
	r.RMSE, r.MAE = value(got, "rmse"), value(got, "mae")
	for _, name := range j.how.Metrics {
		if v := value(got, name); v != nil {
			if r.Metrics == nil {
				r.Metrics = map[string]float64{}
			}
			r.Metrics[name] = *v
		}
	}
	return nil
}

// value is a metric by name, or nothing where it has no value.
func value(m *worker.Metrics, name string) *float64 {
	v, err := m.Value(name)
	if err != nil {
		return nil // Train has refused unknown names already
	}
	return defined(v)
}

// defined is a metric, or nothing where it has no value: the AUC of a test part
// with one kind of label.
func defined(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

func shown(v *float64) string {
	if v == nil {
		return "undefined (one kind of label)"
	}
	return fmt.Sprintf("%.4f", *v)
}

func peakRSS() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10
}

// leave writes the report into the folder that launch collects them from, as that of the process with the given number there.
func (r report) leave(dir string, process int) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank-%d.json", process)), b, 0o600)
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

func (r report) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "job\t%s\n", r.Job)
	if r.Rows == 0 && r.Steps > 0 {
		fmt.Fprintf(tw, "trained\tnothing: the job has finished, in %d steps\n", r.Steps)
	} else {
		fmt.Fprintf(tw, "trained\t%d rows by this worker, in %d steps, %.0f rows/s, loss %.4f\n", r.Rows, r.Steps, r.SamplesPerS, r.TrainLoss)
	}
	if r.RMSE != nil {
		fmt.Fprintf(tw, "test\tRMSE %s, MAE %s\n", shown(r.RMSE), shown(r.MAE))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		fmt.Fprintf(tw, "test\t%s %.4f\n", name, r.Metrics[name])
	}
	if r.LogLoss != nil {
		fmt.Fprintf(tw, "test\tAUC %s, accuracy %s, log loss %s\n", shown(r.AUC), shown(r.Accuracy), shown(r.LogLoss))
	}
	fmt.Fprintf(tw, "pushes\t%d batches of all workers, %d applied, %d sent again, %d answered as duplicates\n", r.Batches, r.Applied, r.Retried, r.Duplicate)
	if r.PushBytes < r.PushBytesRaw {
		fmt.Fprintf(tw, "compressed\tgradients of this worker from %.1f to %.1f MiB, 1 / %.1f\n", mib(r.PushBytesRaw), mib(r.PushBytes), float64(r.PushBytesRaw)/float64(max(r.PushBytes, 1)))
	}
	fmt.Fprintf(tw, "peak memory\t%d MiB\n", r.PeakRSS>>20)
	fmt.Fprintf(tw, "digest\t%s\n", r.Digest)
	if !r.Reproducible && r.Rows > 0 {
		fmt.Fprintf(tw, "reproducible\tno: %s\n", r.Irreproducible)
	}
	return tw.Flush()
}
