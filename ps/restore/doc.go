// Package restore brings a job from a checkpoint into a running cluster that
// does not know it: rows with their optimizer slots, clocks, the records by
// which a push is applied once, positions in the data, learning rates.
//
//	c, err := store.Load(ctx, id)
//	report, err := restore.Run(ctx, restore.Config{From: c, Dir: dir, To: cluster})
//
// All of it goes through the logs of the new cluster, piece by piece; the pieces
// may be sent again, so a restore that was broken off is run again. Nobody can
// open the job before all of it is there. The cluster may have any number of
// shards and servers: partitions are what both have in common.
//
// Fork brings single tables, under other names if wanted, into a job that runs or has yet to begin:
//
//	report, err := restore.Fork(ctx, restore.ForkConfig{From: c, Job: "experiment", Tables: []restore.Copy{{Table: "items"}}, To: cluster})
//
// Both start some goroutines and wait for them.
package restore
