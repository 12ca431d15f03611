// Package worker is the SDK of hcclps: the only package most users import.
//
// Connect opens a session with the servers, Embedding and Dense describe the
// parameters, and Train runs a Model over a source of batches:
//
//	c, err := worker.Connect(ctx, worker.Config{Servers: []string{"127.0.0.1:7000"}, Job: "clicks"})
//	if err != nil { ... }
//	defer c.Close(ctx)
//	m, err := model.NewLR(ctx, c, worker.Optimizer{Name: "adagrad"})
//	rep, err := c.Train(ctx, m, source, worker.TrainOptions{Epochs: 3})
//
// TrainOptions evaluates on the way, stops early, keeps the best and accumulates
// batches. Save writes a model directory, Load begins a job with one, or with a checkpoint.
//
// EmbeddingSpec.Admit and Evict bound a table: which keys get a row, and which rows are given up. A key without one reads as its initial row.
//
// Below Train lie Pull, Push and Finish, for loops of one's own.
//
// # Modes
//
// Config.Mode says where parameters are; the model never asks. With PS they are sharded over servers. With AllReduce every worker holds all of
// them, and needs no servers: Config.Meet says where workers meet. With Hybrid embedding tables are on servers, and dense tensors in every
// worker. Workers sum dense gradients by fused AllReduce, which begins while the model is still at the rest of its backward pass
// (Step.Grad, Step.Ready), and give each other the gradients of embedding rows; then each applies what a server would apply. With
// Config.RankOrder the parameters have the same bits in all three modes, for one number of workers and BSP.
//
// Parameters come from the seed, or from the lowest rank that has loaded a model (Load) or has most steps.
//
// A worker of AllReduce that is lost is named, and the others go on without it from the last step that any of them has
// applied, up to Config.MaxRebuilds times; one that connects meanwhile is let in after a step, and gets the parameters.
// The batches are dealt anew from where they were. Train does all that by itself; a loop of one's own is told by
// ErrRebuilt. Of Hybrid the servers are told too: the step in which a worker is lost is ended by the others in the
// shares they had, without what of the lost one has not arrived, and a worker that comes has a share from the step on
// that all have agreed on.
//
// [Pipeline] cuts a model into stages, one a worker.
//
// # Compression
//
// Config.Compress and the descriptions of tables say how gradients travel: in 16 or 8 bits, in two or one, or a share
// of their elements. What a code does not hold is added to the next gradient of the same rows, at this worker, so that
// it is late and not lost; a worker that is killed loses it, a checkpoint keeps it. Codes of a step are made once, and
// servers log them where they are smaller than their sum. Of workers that sum gradients themselves, dense ones go to an
// owner of each part in codes, which gives back the code of the sum; rows go to all in codes; 16 bits are a type of the
// collectives. All workers decode the same codes, in the order of ranks: with BSP bits are still a function of seed,
// data and flags, but that the number of shards and parts is one of these. Codecs that send a share begin with a
// quarter of the elements. A codec that keeps back more than ten gradients is spoken of in the log, once; with auto it
// is left for a more exact one, and with auto runs differ, since codecs are chosen by speeds that are measured.
//
// Config.PullAs has weights come in 16 bits. Stats counts bytes as they travelled, and what gradients would have taken.
//
// # Checkpoints
//
// A checkpoint is the state of a job after one step of all workers: parameters, optimizer slots, the position in the data, and what codecs
// hold back (package checkpoint). Client.Checkpoint asks for one, and TrainOptions.CheckpointEvery has rank 0 ask; it is written while training goes on, and
// Stats says how far it is. With servers these write it, and workers add what they hold themselves. Without, rank 0 writes into
// Config.Checkpoints.Dir, and Resume has Connect go on from the newest there:
//
//	c, err := worker.Connect(ctx, worker.Config{Mode: worker.AllReduce, Checkpoints: worker.Checkpoints{Dir: "/ckpt/clicks", Resume: true}, ...})
//
// A BSP job that goes on has the bits of one that was not interrupted, for the same number of workers, and of shards
// where gradients are coded; with TrainOptions.Delay its first step does not lag. With n workers in place of m, those
// that were rank r are rank r mod n now. One format serves all modes: a job of servers goes on without, and the other
// way round.
//
// Load begins another job with a checkpoint, with an export of one, or with tensors of anybody's making, and [Export] writes them for numpy and others.
//
// # Promises
//
// A step is one transaction per shard, applied at most once however often it
// has to be sent. The data cursor travels with the step, so a worker that is
// killed and started again under the same name resumes with no batch lost and
// none counted twice. A second process under that name fences the first off.
//
// # Where time goes
//
// Stats has the time of training by what it went to: the model, waiting for data, for rows, for a step to be taken, for other workers. While
// Profiler is started every step, push, pull, transfer and collective is recorded, for ui.perfetto.dev and ps-worker profile:
//
//	c.Profiler().Start()
//	...
//	err := c.Profiler().Trace().WriteFile("out.json")
//
// Mark and Span add the user's own. Where workers sum gradients themselves, Flight is the last operations of each.
//
// # Goroutines
//
// Connect starts one goroutine that renews the lease, those of the
// connections, and those of the workers' world; Close ends them and waits. Train, Evaluate and Predict fetch the
// next batch on a goroutine of their own, which is the only one that calls the
// source meanwhile, and which they wait for. A Client is used by one goroutine at
// a time, except for Waiting, Stats, Mark, Span, Flight and the Profiler.
package worker
