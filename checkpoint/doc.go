// Package checkpoint keeps checkpoints of tables in a folder: content-addressed
// chunks in pack files, a part per Raft group, and a manifest, written last, that
// makes the checkpoint exist.
package checkpoint
