// Package shard is one Raft group of a shard: the tables of a range of
// partitions and the steps, sessions and plans of the jobs that train them.
//
// The road of a push, file by file:
//
//	intake.go      receives the body, and looks for values that are not finite
//	serve.go       decodes the request; admit.go asks the applied state whether
//	               the step is the next one, a duplicate, fenced, ...
//	inbox.go       keeps the contribution (the leader's soft state) until its
//	               part can be logged: bsp waits for all required workers
//	reduce.go      bsp: adds the contributions in ascending rank
//	propose.go     packs parts that are ready into one log entry
//	fsm.go         raft calls back when the entry is committed
//	apply*.go      State.Apply: the pure function of (state, entry) that touches
//	               the tables and makes the answers
//
// The entry that completes a step also evicts (apply_sweep.go). What outlives a time is evicted by entries of the leader, who
// looks every second whether it is time to tell the time (sweep.go).
//
// A pull (pull.go) waits until the applied state satisfies its clock rule and
// gathers; it never writes. The rows of a large answer are read from the tables while they are sent (view.go); an entry
// that comes in between copies first what is still to be sent. Waiting requests are woken after each batch of
// applied entries and look again.
//
// # State and determinism
//
// State is everything that is replicated. Apply is total (a bad entry has the
// same error answer on every replica) and deterministic: no time, no iteration
// over maps, and of floats only + - * / sqrt with every product rounded. The
// running digest covers every touched row and every answer; every checkEvery
// entries the leader logs its digest, and a replica that differs stops.
//
// # Concurrency
//
// One RWMutex guards State: the FSM takes the write side per entry, pulls,
// admission and snapshots' pages the read side. Nothing waits under it. The
// leader's soft state has a lock of its own, taken after State's where both are
// needed. Entries are proposed by one goroutine and completed by another, both
// of which end with the leadership (propose.go). In scratch mode whoever has
// put something into the inbox proposes, applies and completes it, one at a time (scratch.go).
//
// # Checkpoints
//
// A checkpoint is a plan; once it is in force State has a cut (apply_cut.go), up to
// which every step counts. Where the entry before the cut is applied the leader captures
// the job's tables and its head (checkpoint.go), under the lock and without copying a row.
// Under bsp training goes on at once; under ssp and asp each worker is stopped at its own
// step until all shards have captured (wire.CheckpointGo). A goroutine of Run writes the part. All
// of that but the cut is soft: a new leader captures if it is not too late, else the
// meta group abandons the checkpoint. A table has one capture at a time: a snapshot under
// way is given up for a checkpoint, and waits until the part's pages are written, if not synced;
// when the log is half full, the part is written as fast as it can be.
//
// A job comes back from a checkpoint through the log (apply_restore.go): its head,
// put together from those of all shards (MergeHeads), then pages of rows.
//
// # Snapshots
//
// The head is a version byte and State as JSON, without rows. Pages are those
// of ps/table; a page's id packs the table's slot (creation order in this
// shard), its partition and its number there: slot<<32 | partition<<22 | page. What the admission of a table's keys
// remembers is a table with a slot of its own.
package shard
