// Package shard is one Raft group of a shard.
package shard
