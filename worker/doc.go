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
// batches. Save writes a model directory, Load begins a job with one.
//
// Below Train lie Pull, Push and Finish, for loops of one's own.
//
// # Promises
//
// A step is one transaction per shard, applied at most once however often it
// has to be sent. The data cursor travels with the step, so a worker that is
// killed and started again under the same name resumes with no batch lost and
// none counted twice. A second process under that name fences the first off.
//
// # Goroutines
//
// Connect starts one goroutine that renews the lease and those of the
// connections; Close ends them and waits. Train, Evaluate and Predict fetch the
// next batch on a goroutine of their own, which is the only one that calls the
// source meanwhile, and which they wait for. A Client is used by one goroutine at
// a time, except for Waiting and Stats.
package worker
