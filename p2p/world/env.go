package world

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Env reads the variables that torchrun sets: RANK, WORLD_SIZE, LOCAL_RANK (which may be absent), MASTER_ADDR and MASTER_PORT. lookup is
// [os.LookupEnv]. The error names every variable that is at fault. What is not about ranks stays for the caller to fill in.
func Env(lookup func(name string) (string, bool)) (Config, error) {
	v := variables{lookup: lookup}
	c := Config{
		Rank: v.number("RANK", 0, MaxSize-1), Size: v.number("WORLD_SIZE", 1, MaxSize),
		LocalRank: v.optional("LOCAL_RANK", 0, MaxSize-1),
	}
	host, port := v.text("MASTER_ADDR"), v.number("MASTER_PORT", 1, 65535)
	if v.faults == nil && c.Rank >= c.Size {
		v.faults = append(v.faults, fmt.Errorf("RANK=%d is not below WORLD_SIZE=%d", c.Rank, c.Size))
	}
	if err := errors.Join(v.faults...); err != nil {
		return Config{}, fmt.Errorf("read rank from the environment: %w", err)
	}
	c.Master = net.JoinHostPort(host, strconv.Itoa(port))
	return c, nil
}

// variables reads the environment and keeps what is wrong with it.
type variables struct {
	lookup func(name string) (string, bool)
	faults []error
}

func (v *variables) text(name string) string {
	s, ok := v.lookup(name)
	if !ok || s == "" {
		v.faults = append(v.faults, fmt.Errorf("%s is not set", name))
	}
	return s
}

func (v *variables) number(name string, least, most int) int {
	s := v.text(name)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		v.faults = append(v.faults, fmt.Errorf("%s=%q is not a number in %d..%d", name, s, least, most))
	}
	return n
}

func (v *variables) optional(name string, least, most int) int {
	if s, ok := v.lookup(name); !ok || s == "" {
		return 0
	}
	return v.number(name, least, most)
}
