package shm

import "hcclps/p2p"

var _ p2p.Confirmer = (*Comm)(nil)

// Confirms implements p2p.Confirmer: a send completes when the tail has passed its end, and the receive completes with that.
func (c *Comm) Confirms() bool { return true }

var _ p2p.Patient = (*Comm)(nil)

// Patient implements p2p.Patient: what waits for its receive stays in the ring, and Run sees to the other direction.
func (c *Comm) Patient() bool { return true }
