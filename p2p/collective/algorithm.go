package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Algorithm is a way to carry an operation out between the ranks of one level. Values are stable: they appear on the wire.
type Algorithm uint8

// The algorithms, by HCCL's names where it has one. Auto leaves the choice to the cost model.
const (
	Auto            Algorithm = iota
	Ring                      // neighbours in a circle, in pieces
	HalvingDoubling           // recursive halving, then doubling; what exceeds a power of two is folded in first
	Mesh                      // every rank with every other at once
	Tree                      // binomial, whole messages
	Pairwise                  // one partner at a time
	SHM                       // straight from and to memory that all ranks have mapped; see Config.Shared
	Bruck                     // twice as many parts in every step, for any number of ranks
	Natively                  // what the backend has itself; see Config.Native
	NHR                       // as many steps as Bruck, the most parts to the nearest rank

	lastAlgorithm = NHR
)

// String is HCCL's token, which ParseAlgorithms reads.
func (a Algorithm) String() string {
	switch a {
	case Auto:
		return "NA"
	case Ring:
		return "ring"
	case HalvingDoubling:
		return "H-D_R"
	case Mesh:
		return "mesh"
	case Tree:
		return "tree"
	case Pairwise:
		return "pairwise"
	case SHM:
		return "shm"
	case Bruck:
		return "NB"
	case Natively:
		return "native"
	case NHR:
		return "NHR"
	default:
		return fmt.Sprintf("algorithm(%d)", uint8(a))
	}
}

// Choice is an algorithm for each level: Level0 between the ranks of a host, Level1 between hosts.
// Where Level0 is Auto all ranks are one level and Level1 is its algorithm. A Tree does not work on parts: where AllReduce in two levels has parts, Mesh
// stands in for it.
type Choice struct {
	Level0, Level1 Algorithm
}

// String is the token of a single level, or both as HCCL writes them.
func (c Choice) String() string {
	if c.Level0 == Auto {
		return c.Level1.String()
	}
	return fmt.Sprintf("level0:%v;level1:%v", c.Level0, c.Level1)
}

// supports lists what an operation can be done by between the ranks of one level, cheapest to describe first.
func supports(o Op) []Algorithm {
	switch o {
	case AllReduce, Reduce:
		return []Algorithm{Ring, HalvingDoubling, Mesh, Tree, SHM, Bruck, NHR, Natively}
	case ReduceScatter, AllGather:
		return []Algorithm{Ring, HalvingDoubling, Mesh, SHM, Bruck, NHR, Natively}
	case Broadcast:
		return []Algorithm{Ring, Mesh, Tree, HalvingDoubling, SHM, Natively} // HalvingDoubling is the binomial tree too
	case AlltoAll:
		return []Algorithm{Pairwise, Mesh, SHM, Natively}
	case AlltoAllV:
		return []Algorithm{Pairwise, Mesh}
	case SparseReduce: // rows to all, or to owners and back
		return []Algorithm{Mesh, Pairwise}
	case Scatter, Gather:
		return []Algorithm{Mesh}
	case Barrier:
		return []Algorithm{Tree, SHM}
	default:
		return nil
	}
}

// layered says whether an operation can be done in two levels.
func layered(o Op) bool { return o == AllReduce || o == Reduce || o == Broadcast }

// Algorithms pins the algorithms of operations; one that is not in it is left to the cost model.
type Algorithms map[Op]Choice

// ParseAlgorithms reads pinned algorithms in the syntax of HCCL_ALGO: operations parted by "/", each "op=algorithm" or
// "op=level0:inside;level1:between", without "op=" for all that can. Operations are allreduce, reducescatter, allgather, broadcast, reduce, scatter,
// gather, alltoall, alltoallv, barrier and sparsereduce (mesh: rows go to all, pairwise: to owners and back); algorithms are ring, H-D_R, NB, NHR, mesh (or fullmesh), tree, pairwise, shm, native and NA, which leaves the choice open.
// A name in the wrong case is taken too, one that there is none of is a *NameError. What an operation cannot be done by is an error, not another algorithm.
func ParseAlgorithms(s string) (Algorithms, error) {
	all := make(Algorithms)
	named := make(map[Op]bool)
	for field := range strings.SplitSeq(s, "/") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		name, spec, ok := strings.Cut(field, "=")
		if !ok {
			if err := pinAll(all, named, field); err != nil {
				return nil, err
			}
			continue
		}
		op, err := parseOp(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if named[op] {
			return nil, fmt.Errorf("parse algorithms: %v is named twice", op)
		}
		named[op] = true
		if all[op], err = parseChoice(spec); err != nil {
			return nil, err
		}
	}
	return all, all.validate()
}

// NameError is that there is no operation or algorithm of a name.
type NameError struct {
	What, Name string
	Valid      []string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("parse algorithms: %s %q, want one of %s", e.What, e.Name, strings.Join(e.Valid, ", "))
}

// pinAll pins every operation that has no choice of its own and can be done so.
func pinAll(all Algorithms, named map[Op]bool, spec string) error {
	c, err := parseChoice(spec)
	if err != nil {
		return err
	}
	some := false
	for op := AllReduce; op <= lastOp; op++ {
		if checkChoice(op, c) == nil {
			some = true
			if !named[op] {
				all[op] = c
			}
		}
	}
	if !some {
		return fmt.Errorf("parse algorithms %q: no operation can be done so", spec)
	}
	return nil
}

func parseOp(s string) (Op, error) {
	var names []string
	for op := AllReduce; op <= lastOp; op++ {
		if strings.EqualFold(s, op.String()) {
			return op, nil
		}
		names = append(names, op.String())
	}
	return 0, &NameError{"operation", s, names}
}

func parseChoice(spec string) (Choice, error) {
	var c Choice
	if !strings.Contains(spec, ":") {
		a, err := parseAlgorithm(strings.TrimSpace(spec))
		return Choice{Level1: a}, err
	}
	for field := range strings.SplitSeq(spec, ";") {
		level, name, _ := strings.Cut(strings.TrimSpace(field), ":")
		a, err := parseAlgorithm(name)
		if err != nil {
			return c, err
		}
		switch level {
		case "level0":
			c.Level0 = a
		case "level1":
			c.Level1 = a
		case "level2":
			if a != Auto {
				return c, fmt.Errorf("parse algorithms %q: there are two levels, level0 within a host and level1 between hosts", spec)
			}
		default:
			return c, fmt.Errorf("parse algorithms %q: %q, want level0 or level1", spec, level)
		}
	}
	if c.Level0 != Auto && c.Level1 == Auto {
		return c, fmt.Errorf("parse algorithms %q: level0 needs an algorithm of level1 beside it", spec)
	}
	return c, nil
}

func parseAlgorithm(s string) (Algorithm, error) {
	if strings.EqualFold(s, "fullmesh") {
		return Mesh, nil
	}
	var names []string
	for a := Auto; a <= lastAlgorithm; a++ {
		if strings.EqualFold(s, a.String()) {
			return a, nil
		}
		names = append(names, a.String())
	}
	return 0, &NameError{"algorithm", s, names}
}

// validate checks that every operation can be done as pinned and tells all faults.
func (a Algorithms) validate() error {
	var faults []error
	for op := AllReduce; op <= lastOp; op++ {
		if c, ok := a[op]; ok {
			faults = append(faults, checkChoice(op, c))
		}
	}
	return errors.Join(faults...)
}

func checkChoice(op Op, c Choice) error {
	for _, a := range []Algorithm{c.Level0, c.Level1} {
		if a != Auto && !slices.Contains(supports(op), a) {
			return fmt.Errorf("pin %v to %v: it is done by %v", op, a, supports(op))
		}
	}
	if c.Level0 == Natively || c.Level0 != Auto && c.Level1 == Natively {
		return fmt.Errorf("pin %v to %v: the backend does it between all ranks, in one level", op, c)
	}
	if c.Level0 != Auto && !layered(op) {
		return fmt.Errorf("pin %v to %v: it has one level", op, c)
	}
	return nil
}
