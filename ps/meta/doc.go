// Package meta is the Raft group that knows about the cluster and its jobs:
// layout, job parameters, workers and their incarnations, tables, plans and
// claims of batch ranges. It is small, always on disk, and never on the road
// of a push or a pull.
//
// Its state is a pure function of its log (State.Apply); what only the leader
// does (leases on its own monotonic clock, the plan driver) is soft and starts
// anew with each leader.
package meta
