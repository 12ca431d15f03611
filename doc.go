// Package hcclps is the root of a parameter server for training recommenders
// and other large models, in Go: sharded parameters replicated by Raft, pulled
// and pushed by workers that may die at any moment.
//
// It has no code of its own. Users import hcclps/worker; the programs are
// cmd/ps-server and cmd/ps-worker; examples holds one program each.
package hcclps
