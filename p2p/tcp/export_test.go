package tcp

// Sums says whether what a Comm sends carries a sum.
func (c *Comm) Sums() bool { return c.sums }
