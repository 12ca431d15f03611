// Package table stores the rows of one table in one shard.
package table
