// Package update is what a step does to tables: it makes tables from their descriptions, adds up the gradients of workers, and
// applies what comes out. Whoever holds parameters does it with this package, a shard of a server as well as a worker that has
// all of them itself, so that the same gradients leave the same bits in both.
//
// A step is, for each table and in this order: [Reducer.Merge] of the contributions in ascending rank, [Reducer.Divided] by the rows
// of data behind them, [Table.Takes], [Table.Advance] of every table of the job, also of those without a gradient, and [Table.Apply].
//
// Everything is a function of its arguments: no clock, no chance, no order of a map, and no product that could be fused with a sum.
// A value is used by one goroutine at a time, except that rows may be read by many while nobody applies.
package update
