// Package collective carries out operations in which all ranks of a group take part: sums of gradients, copies of parameters, exchanges of rows.
//
// # Use
//
// A [Group] is one epoch of a fixed set of ranks over one p2p.Comm. Operations are posted, and return a [Work]:
//
//	g, err := collective.New(collective.Config{Comm: comm})
//	go g.Run(ctx)                                            // carries out what is posted
//	w := g.AllReduce(grad, grad, p2p.Float32, collective.Avg)
//	err = w.Wait(ctx)
//
// Every rank posts the same operations in the same order. They are carried out one after the other in that order, while whoever posted them does
// something else. [Group.Sub] makes a group of some ranks with a Comm of its own, so that it works beside the others: the messages
// of a Comm have one order between two ranks, which two groups could not keep. [Group.Fuse] reduces many small tensors as few large ones, begun as
// soon as they are ready. [Group.SparseReduce] sums rows by key.
//
// # Results
//
// A result has the same bits on all ranks that get it and in every run with the same ranks, lengths, algorithm (but native) and size of pieces: each element is reduced
// in one place, in a fixed order, and copied. With Config.RankOrder the order is that of ranks in every algorithm, so that all of them give the same bits: the
// contributions to a part meet at its owner, which folds them. (A NaN is only sure to be a NaN.) float16 and bfloat16 are folded in float32 and
// rounded when they go on to the next rank, once a hop; with Mesh and with RankOrder that is once, and once more for an average. [Group.AllReduceAs] sends float32 as one of
// them: each contribution is rounded, they are folded in float32 in the order of ranks, and the result is rounded. SparseReduce folds in the order of ranks always.
//
// # Algorithms
//
//	ring       neighbours in a circle, in pieces            allreduce reducescatter allgather broadcast reduce
//	H-D_R      recursive halving and doubling               the same; of a broadcast it is the tree
//	NB         Bruck's, for any number of ranks             allreduce reducescatter allgather reduce
//	NHR        as many steps, the most bytes to the nearest the same
//	mesh       every rank with every other at once          all but barrier
//	tree       binomial, whole messages; for tiny ones      allreduce broadcast reduce barrier
//	pairwise   one partner at a time                        alltoall alltoallv
//	shm        straight from memory that a host's ranks map all but scatter, gather, alltoallv and sparsereduce
//	native     what the backend has itself                  allreduce reducescatter allgather broadcast reduce alltoall
//
// AllReduce, Reduce and Broadcast can be done in two levels where Config.Hosts says which ranks are closer together, with an algorithm for each. Scatter
// and Gather are a root's exchange with everyone. A pure function of the operation, its bytes and the constants of [Link] chooses; it is the same
// on all ranks. [Calibrate] measures the constants over a Comm before it has a Group, [Fit] finds those behind a table of times. [ParseAlgorithms] reads HCCL's
// way to pin the choice. [Work.Call] says what was chosen.
//
// Where one rank's link is much slower than the others', [Plan] proposes a [Grouping] from a [Calibration], which [Group.Regroup] applies at the end of a step:
// such a rank is apart (Config.Apart), owns no part of an AllReduce, and sends the next segment while it gets the last. Plan also finds hosts, and the order
// of a ring.
//
// # The backend's own
//
// With Config.Native an operation is left to the backend, such as HCCL between NPUs, where it can do the type and the reduction, no order is asked for and no
// other algorithm pinned. Ranks compare their calls first, since HCCL hangs where they differ. Buffers may be memory of the device then. Whether runs give
// the same bits is HCCL's affair (HCCL_DETERMINISTIC); all ranks have the same.
//
// # Shared memory
//
// With Config.Shared the ranks of one host work in memory that all of them have mapped, and by its words they wait for each other; nothing of an operation passes
// through the Comm. It is chosen wherever it can be: for all ranks if they are on one host, else within hosts. A message of at most 16 KiB is shown whole,
// and everyone folds for himself. A larger one goes through in pieces: each rank shows what others reduce, reduces its slice straight from what all show,
// shows that, and takes the others' slices; so the pieces stay in the caches. Buffers of [Group.Alloc] are not even shown: each rank reduces its slice
// straight from all ranks' buffers and writes it to all of them. Contributions are folded in the order of ranks always, each rounded once.
//
// [Work.Wait] carries an operation in shared memory out itself if it is the next; so a small one takes no switch of goroutines. It leaves to Run what takes longer.
// An operation ends at no rank before all ranks of the host have begun it, and a call that differs is seen then.
//
// # What goes wrong
//
// Before the first message to a peer goes a frame of 128 bytes: what this rank called, as 64 bytes described at the fingerprint, and the message itself
// if it has at most 64 bytes. The receiver compares before it posts a receive of a length that the peer may not have in mind, and before what
// came is used. Ranks that call different things get an error that names both calls ([ErrMismatch]), never a wrong result. A rank whose operation
// makes no progress for Config.Watchdog gives up ([ErrStalled]), naming whom it waits for and where they were last. After any error the
// group is dead at this rank and its Comm closed, so that peers end as well ([p2p.ErrPeer]).
//
// That is what one rank can see. With a [Control] the first reason becomes the error of all ranks (with Config.Scope that of a sub-group is its members' alone), also of those that would only see a peer go, and a stall
// says where every rank is; [Group.Health] asks that at any time. [Group.Recent] is the flight recorder. [RankError] has the rank that an error is about.
//
// # Goroutines and memory
//
// Run is one goroutine, and one that watches it. Buffers are host memory of any alignment, or with native of a device, and belong to the group until the Work has ended. A group keeps as
// much scratch memory as its largest operation needed: at most twice the operation's bytes, but all contributions at the root of a tree in rank order.
package collective
