package collective

import (
	"fmt"
	"strings"

	"hcclps/p2p"
)

// Op is a collective operation. Values are stable: they appear on the wire.
type Op uint8

// The operations.
const (
	AllReduce Op = iota + 1
	ReduceScatter
	AllGather
	Broadcast
	Reduce
	Scatter
	Gather
	AlltoAll
	AlltoAllV
	Barrier
	SparseReduce

	lastOp = SparseReduce
)

// name is that of HCCL's settings, "" for an unknown operation.
func (o Op) name() string {
	switch o {
	case AllReduce:
		return "allreduce"
	case ReduceScatter:
		return "reducescatter"
	case AllGather:
		return "allgather"
	case Broadcast:
		return "broadcast"
	case Reduce:
		return "reduce"
	case Scatter:
		return "scatter"
	case Gather:
		return "gather"
	case AlltoAll:
		return "alltoall"
	case AlltoAllV:
		return "alltoallv"
	case Barrier:
		return "barrier"
	case SparseReduce:
		return "sparsereduce"
	default:
		return ""
	}
}

// String is the name by which ParseAlgorithms knows the operation.
func (o Op) String() string {
	if s := o.name(); s != "" {
		return s
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// reduces says whether the operation has a reduction.
func (o Op) reduces() bool { return o == AllReduce || o == ReduceScatter || o == Reduce }

// rooted says whether one rank is special.
func (o Op) rooted() bool { return o == Broadcast || o == Reduce || o == Scatter || o == Gather }

// NoRoot is the Root of an operation that has none.
const NoRoot = -1

// Call is one operation as one rank called it. Ranks that take part in one operation have equal Calls; what differs is an error.
type Call struct {
	// Group is a digest of the group's members, so that groups are told apart.
	Group uint32
	// Epoch is the epoch of membership of the group.
	Epoch uint64
	// Seq numbers the operations of a group from 1.
	Seq uint64
	// Op is the operation.
	Op Op
	// Count is the number of elements: in all of AllReduce, Broadcast and Reduce, else in the part of one rank; 0 in AlltoAllV, where each pair
	// has its own; of SparseReduce the width of a row.
	Count int
	// DType is the type of an element, 0 in a Barrier.
	DType p2p.DType
	// Wire is the type that elements travel as, 0 where that is DType.
	Wire p2p.DType
	// Reduction is 0 where nothing is reduced.
	Reduction Reduction
	// Root is a rank of the group, or NoRoot.
	Root int
	// Algorithm is what carries the operation out.
	Algorithm Choice
	// RankOrder says that contributions are folded in the order of ranks.
	RankOrder bool
	// Plan is a digest of all else that must agree: the size of pieces, the hosts, and the tensors in a fused bucket.
	Plan uint32
}

// String is what an error says of the call, such as "#7 allreduce of 1000 float32 (sum, ring)".
func (c Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %v", c.Seq, c.Op)
	if c.Op != Barrier && c.Op != AlltoAllV {
		fmt.Fprintf(&b, " of %d", c.Count)
	}
	if c.Op != Barrier {
		fmt.Fprintf(&b, " %v", c.DType)
		if c.Wire != 0 {
			fmt.Fprintf(&b, " as %v", c.Wire)
		}
	}
	var how []string
	if c.Op.reduces() {
		how = append(how, c.Reduction.String())
	}
	if c.Op.rooted() {
		how = append(how, fmt.Sprintf("root %d", c.Root))
	}
	how = append(how, c.Algorithm.String())
	if c.RankOrder {
		how = append(how, "rank order")
	}
	fmt.Fprintf(&b, " (%s)", strings.Join(how, ", "))
	return b.String()
}

// differences names what tells two calls apart beyond their text, "" if that is enough.
func (c Call) differences(o Call) string {
	var what []string
	if c.Group != o.Group {
		what = append(what, fmt.Sprintf("groups %08x and %08x", c.Group, o.Group))
	}
	if c.Epoch != o.Epoch {
		what = append(what, fmt.Sprintf("epochs %d and %d", c.Epoch, o.Epoch))
	}
	if c.Plan != o.Plan && c.Group == o.Group {
		what = append(what, fmt.Sprintf("plans %08x and %08x (sizes of pieces, hosts, or fused tensors)", c.Plan, o.Plan))
	}
	return strings.Join(what, ", ")
}
