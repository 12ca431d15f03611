package worker

import "fmt"

// Mode is where the parameters of a job are, and how its workers bring their gradients together. A model is the same in all of them.
type Mode uint8

// The modes.
const (
	// PS keeps parameters on servers: workers pull rows and push gradients.
	PS Mode = iota
	// AllReduce keeps all parameters in every worker, and needs no servers: gradients are summed by collectives.
	AllReduce
	// Hybrid keeps embedding tables on servers and dense tensors in every worker.
	Hybrid
)

// Modes are the names of the modes.
func Modes() []string { return []string{"ps", "allreduce", "hybrid"} }

// ParseMode finds a mode by its name.
func ParseMode(name string) (Mode, error) {
	for i, n := range Modes() {
		if n == name {
			return Mode(i), nil
		}
	}
	return PS, fmt.Errorf("mode %q: want one of %q", name, Modes())
}

func (m Mode) String() string {
	if int(m) < len(Modes()) {
		return Modes()[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// servers says whether the mode needs servers.
func (m Mode) servers() bool { return m != AllReduce }

// peers says whether workers of the mode talk to each other.
func (m Mode) peers() bool { return m != PS }
