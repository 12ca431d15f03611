// Package rafttransport carries the Raft messages of many groups between servers.
package rafttransport
