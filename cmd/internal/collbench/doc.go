// Package collbench measures collective operations the way nccl-tests does: every rank does [Measure] with its group, the slowest rank's time
// counts, and the data of every size are checked outside the timed part.
//
// [Join] makes this process one rank of a world of processes, [Together] makes all ranks in this one. Sizes are measured in rounds that take turns, so
// that what disturbs a machine for a while disturbs all sizes; the median round of a size counts. The ranks agree by collectives on how often a round
// calls, so that nothing else is needed between them.
package collbench
