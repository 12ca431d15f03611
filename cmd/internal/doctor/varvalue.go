package doctor

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// number checks a whole number; unit is what it counts.
func number(low, high int64, unit string) func(string) string {
	return func(s string) string {
		if n, err := strconv.ParseInt(s, 10, 64); err != nil || n < low || n > high {
			return fmt.Sprintf("want a number from %d to %d (%s)", low, high, unit)
		}
		return ""
	}
}

func multiple(of, low, high int64) func(string) string {
	return func(s string) string {
		if n, err := strconv.ParseInt(s, 10, 64); err != nil || n < low || n > high || n%of != 0 {
			return fmt.Sprintf("want a multiple of %d from %d to %d", of, low, high)
		}
		return ""
	}
}

func oneOf(valid ...string) func(string) string {
	return func(s string) string {
		if slices.ContainsFunc(valid, func(v string) bool { return strings.EqualFold(v, s) }) {
			return ""
		}
		return "want one of " + strings.Join(valid, ", ")
	}
}

// like checks against a regular expression; example is what to write instead.
func like(expr, example string) func(string) string {
	re := regexp.MustCompile("^(?:" + expr + ")$")
	return func(s string) string {
		if re.MatchString(s) {
			return ""
		}
		return "want something like " + example
	}
}

func filled(s string) string {
	if s == "" {
		return "it is empty: unset it or give it a value"
	}
	return ""
}

func address(s string) string {
	if _, err := netip.ParseAddr(s); err != nil {
		return "want one IP address of this host"
	}
	return ""
}

// maxBuffer is the largest plausible HCCL_BUFFSIZE: a communicator takes twice as much of the device's memory.
const maxBuffer = 4096

// bufferSize checks HCCL_BUFFSIZE, which many take for bytes.
func bufferSize(s string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil || n < 1:
		return "want a number of MB, 1 or more"
	case n > maxBuffer && n >= 1<<20:
		return fmt.Sprintf("the unit is MB, not bytes: each communicator would ask for 2 x %d MB; write %d", n, n>>20)
	case n > maxBuffer:
		return fmt.Sprintf("the unit is MB: each communicator would ask for 2 x %d MB of device memory", n)
	}
	return ""
}

// algorithm checks HCCL_ALGO: one setting for all operations, or op=setting/op=setting.
func algorithm(s string) string {
	const want = "want level0:NA;level1:ALGORITHM[;level2:ALGORITHM], for all or as OPERATION=... joined by /"
	ops := []string{"allgather", "reducescatter", "allreduce", "broadcast", "reduce", "scatter", "alltoall"}
	algos := []string{"NA", "ring", "H-D_R", "NHR", "NHR_V1", "NB", "AHC", "pipeline", "pairwise"}
	parts := strings.Split(s, "/")
	for _, part := range parts {
		op, levels, named := strings.Cut(part, "=")
		switch {
		case !named:
			levels = part
			if len(parts) > 1 {
				return want
			}
		case !slices.Contains(ops, op):
			return fmt.Sprintf("%q is no operation: want one of %s", op, strings.Join(ops, ", "))
		}
		for l := range strings.SplitSeq(levels, ";") {
			level, algo, _ := strings.Cut(l, ":")
			switch {
			case !slices.Contains([]string{"level0", "level1", "level2"}, level):
				return want
			case level == "level0" && algo != "NA":
				return "level0 is chosen by the hardware: write level0:NA"
			case !slices.Contains(algos, algo):
				return fmt.Sprintf("%q is no algorithm: want one of %s", algo, strings.Join(algos, ", "))
			}
		}
	}
	return ""
}

// portRange checks "60000-60050,60100" or "auto".
func portRange(s string) string {
	const want = `want ports such as 60000-60050,60100, or auto`
	if s == "auto" {
		return ""
	}
	for part := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, aerr := strconv.ParseUint(first, 10, 16)
		b, berr := strconv.ParseUint(last, 10, 16)
		if aerr != nil || berr != nil || a == 0 || a > b {
			return want
		}
	}
	return ""
}
