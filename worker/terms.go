package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"hcclps/p2p/backend"
)

// term is a choice that all workers of a job must make alike, in words.
type term [2]string // name and value

// termsOf are those of a configuration.
func termsOf(cfg *Config) []term {
	reduce, order := "mean", "any"
	if cfg.Sum {
		reduce = "sum"
	}
	if cfg.RankOrder {
		order = "rank"
	}
	return []term{
		{"mode", cfg.Mode.String()},
		{"reduce", reduce},
		{"seed", fmt.Sprint(cfg.Seed)},
		{"parts", fmt.Sprint(cfg.Parts)},
		{"data", fmt.Sprintf("%q", cfg.Data)},
		{"reduce-order", order},
		{"algo", fmt.Sprint(cfg.Algorithms)},
		{"measure", fmt.Sprint(cfg.Measure)},
		{"compress", fmt.Sprint(cfg.Compress)},
		{"max-rebuilds", fmt.Sprint(max(cfg.MaxRebuilds, 0))}, // else some end where others go on
	}
}

// meetingTerms are those without which workers cannot even talk.
func meetingTerms(cfg *Config) []string {
	return []string{"mode=" + cfg.Mode.String(), "measure=" + strconv.FormatBool(cfg.Measure), "transport=" + cmp.Or(string(cfg.Bulk.Transport), string(backend.Auto))}
}

// terms are those of training.
func (opt *TrainOptions) terms() []term {
	return []term{
		{"epochs", fmt.Sprint(opt.Epochs)},
		{"accumulate", fmt.Sprint(opt.Accumulate)},
		{"delay", fmt.Sprint(opt.Delay)},
		{"clip", fmt.Sprintf("norm=%v,value=%v", opt.Clip.Norm, opt.Clip.Value)},
		{"eval-every", fmt.Sprint(opt.EvalEvery)},
		{"early-stop", fmt.Sprintf("%s:patience=%d,min-delta=%v", opt.EarlyStop.Metric, opt.EarlyStop.Patience, opt.EarlyStop.MinDelta)},
		{"checkpoint-every", fmt.Sprintf("%d steps, %v", opt.CheckpointEvery.Steps, opt.CheckpointEvery.Time)},
	}
}

// different finds the first term in which two workers differ; the name is empty if there is none.
func different(a, b []term) (name, ofA, ofB string) {
	value := func(of []term, name string) string {
		i := slices.IndexFunc(of, func(t term) bool { return t[0] == name })
		if i < 0 {
			return "none"
		}
		return of[i][1]
	}
	for _, t := range slices.Concat(a, b) {
		if x, y := value(a, t[0]), value(b, t[0]); x != y {
			return t[0], x, y
		}
	}
	return "", "", ""
}
