package collective

// cut is where a vector is cut into one part a rank: part i is bytes cut[i] to cut[i+1].
type cut []int

// even cuts n elements of some width into p parts that differ by one element at most, the larger ones first.
func even(n, width, p int) cut {
	c := make(cut, p+1)
	for i := range p {
		size := n / p
		if i < n%p {
			size++
		}
		c[i+1] = c[i] + size*width
	}
	return c
}

// equal cuts p parts of n bytes.
func equal(n, p int) cut {
	c := make(cut, p+1)
	for i := range c {
		c[i] = i * n
	}
	return c
}

// part is the i-th part of b.
func (c cut) part(b []byte, i int) []byte { return c.span(b, i, i+1) }

// span is the parts lo to hi of b.
func (c cut) span(b []byte, lo, hi int) []byte { return b[c[lo]:c[hi]:c[hi]] }

// largest is the length of the longest part.
func (c cut) largest() int {
	n := 0
	for i := range len(c) - 1 {
		n = max(n, c[i+1]-c[i])
	}
	return n
}

// pieces is how many pieces a message of n bytes is sent in.
func pieces(n, piece int) int { return max(1, (n+piece-1)/piece) }

// piece is the k-th of count pieces of b, cut between elements of some width.
func piece(b []byte, width, k, count int) []byte {
	lo, hi := span(len(b), width, k, count)
	return b[lo:hi:hi]
}

// span is where the k-th of count pieces of n bytes begins and ends.
func span(n, width, k, count int) (lo, hi int) {
	n /= width
	return n * k / count * width, n * (k + 1) / count * width
}
