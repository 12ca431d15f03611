// Package inproc connects ranks and hosts that live in one process.
//
// [World] makes a Comm for each of n ranks; a message is one copy from the sender's memory to the receiver's. [Network]
// has Listen and Dial like a real network, over buffered in-memory connections, so that whole clusters run in one test. A [Fabric] is a World
// whose messages take the time of ports, links and hosts of a given quality.
//
// Everything here waits on channels and sync.Cond and holds no mutex while it waits, so it works inside a
// testing/synctest bubble: a blocked Read, Write, Accept, Dial or Wait counts as durably blocked, and deadlines follow
// the bubble's clock. Make the World or the Network inside the bubble that uses it. Only a Fabric's messages have
// goroutines, which end with them.
package inproc
