// Package update is what a step does to tables: it makes tables from their descriptions, adds up the gradients of workers, and
// applies what comes out. Whoever holds parameters does it with this package, a shard of a server as well as a worker that has
// all of them itself, so that the same gradients leave the same bits in both.
//
// A step is, for each table and in this order: [Reducer.Merge] of the contributions in ascending rank, [Reducer.Divided] by the rows
// of data behind them, [Table.Takes], [Table.Advance] of every table of the job, also of those without a gradient, [Table.Apply], and [Table.Sweep].
//
// # Admission
//
// A table may give rows to some keys only (wire.Admit): Apply counts a sighting of each key that has none, and leaves
// out the gradient unless that admits it; the gradient that comes with the last sighting is applied. Sightings are rows
// of a table of their own, [Table.Seen]: of count a row of one float for each key that waits, which goes when the key
// is admitted; of bloom a row of 64 one-byte counters for each block of the filter, which stays, so that after long a
// filter that is too small admits everything. Who keeps rows keeps these the same way, and has snapshots, deltas and
// transfers of them. Chance needs no memory.
//
// # Eviction
//
// A table may give rows up (wire.Evict). Sweep is a part of the step, not an entry of its own: then the rows of a job
// are a function of its steps, through any change of leaders, on any number of shards, and without servers. For the
// same reason chance depends on the step, and not on the place in a log. Rules in steps, and the norm, look at a part
// of the partitions after each step, at all of them eight times in the life of a row, or every 256 steps. The budget of
// rows is parted among partitions, looked at after each step, and makes a 16th of a full partition free at once, so
// that its work is in proportion to the rows that come. Sightings of keys that wait are forgotten by age, time and
// budget like rows. Time comes from outside ([Table.SweepTime]): marks of how many steps were complete at what time say
// which rows have outlived it.
//
// Everything is a function of its arguments: no clock, no chance, no order of a map, and no product that could be fused with a sum.
// A value is used by one goroutine at a time, except that rows may be read by many while nobody applies.
package update
