// Package meta is the Raft group that knows about the cluster and its jobs:
// layout, job parameters, workers and their incarnations, tables, plans and
// claims of batch ranges. It is small, always on disk, and never on the road
// of a push or a pull.
//
//	g, err := meta.New(meta.Config{Self: id, Layout: layout, Log: log, Stable: stable, Snapshots: snapshots, Transport: transport, Shards: caller})
//	err = g.Run(ctx)                    // until ctx ends, or the group fails
//	g.Serve(ctx, kind, head, request)   // one request, answered when all it sets off is done
//
// # Files
//
//	state.go, entry.go, apply_*.go, claims.go   the state, a pure and total function of its log (state.apply)
//	leader.go, leases.go, driver.go             what only the leader does: soft, begun anew by each leader
//	checkpoint*.go, upload.go, schedule.go      the same, of checkpoints
//	group.go, serve.go, status.go               the Raft group around both
//
// # Plans
//
// A change takes effect at one step on all shards. The driver has every shard
// hold the plan, or drops it and tries a later step; then it logs that the plan
// is in force, and releases it on every shard. At most one plan a job is under
// way. Each message and entry may be repeated: a new leader goes on from the
// stage that its log shows.
//
// # Checkpoints
//
// One at a time in the cluster. Its plan gives it its number: the index of the plan's
// entry, or more, so that it follows those in the folder. When the plan is in force the
// leader asks the shards how far their parts are; it writes a part of its own, with the job as this
// group knows it and what workers upload; it logs that all parts are in (and which), writes the
// manifest, logs that too, and removes old ones. A leader that finds a complete one commits it;
// one that is not complete is abandoned, by name, and costs nothing but its time. So is one with no
// step of its job in ten minutes, with a part that has not grown in five, and under bsp one for which a
// worker has not brought what it said it would, 30 s after the last upload. An upload comes in pieces of up to
// wire.UploadPiece, each a blob of its own, and goes back in such: a server has one of them in memory, whatever the
// residuals of a worker's codec and the dense tensors of a hybrid job come to. They are of one incarnation of the worker: the next one begins
// anew. Of an upload that is not whole in the end nothing is in the checkpoint.
//
// # Leases
//
// They are counted on the leader's monotonic clock; a new leader grants a full
// lease to everyone. A session whose lease ends is expelled by a plan, unless no
// other session of its job is live.
//
// # Goroutines
//
// New starts none. Run owns those of the Raft group and, while this replica
// leads, one that watches leases and starts tasks, and one for each plan under way; Serve runs in
// its caller's. One RWMutex guards the state, apply alone takes its write side,
// and nothing waits under it.
package meta
