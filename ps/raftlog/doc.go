// Package raftlog keeps a Raft group's log in mapped segment files and a server's small records in Badger.
package raftlog
