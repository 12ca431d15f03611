package main

import (
	"os"
	"os/signal"
	"syscall"

	"hcclps/worker"
)

// onQuit makes SIGQUIT leave the last collective operations in a file before it does what it always does: print all stacks and end. What it
// returns undoes that.
func (j *job) onQuit(client *worker.Client) (stop func()) {
	if j.cfg.Mode == worker.PS || j.cfg.Flights == "" {
		return func() {}
	}
	told, over, left := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(told, syscall.SIGQUIT)
	go func() {
		defer close(left)
		select {
		case <-over:
			return
		case <-told:
		}
		if path, err := client.WriteFlight("SIGQUIT"); err != nil {
			j.cfg.Logger.Error("the last operations could not be written", "err", err)
		} else if path != "" {
			j.cfg.Logger.Warn("the last operations are written: ps-worker profile reads those of all ranks", "file", path)
		}
		signal.Reset(syscall.SIGQUIT)
		if err := syscall.Kill(os.Getpid(), syscall.SIGQUIT); err != nil {
			j.cfg.Logger.Error("quit", "err", err)
		}
	}()
	return func() {
		signal.Stop(told)
		close(over)
		<-left
	}
}
