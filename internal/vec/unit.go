package vec

import "os"

// unit is a kind of kernels.
type unit uint8

const (
	plain unit = iota // the twins in Go
	neon
	avx2
	avx512
)

func (u unit) String() string { return [...]string{"go", "neon", "avx2", "avx512"}[u] }

// active is chosen once, when the program starts: the widest the CPU has, or plain with HCCLPS_NOSIMD=1 in the environment.
//
//nolint:gochecknoglobals // a property of the machine, not of a caller; written by tests alone
var active = choose(os.Getenv("HCCLPS_NOSIMD"))

func choose(off string) unit {
	if off == "1" {
		return plain
	}
	return detect()
}
