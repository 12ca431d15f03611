package vec

// Gemm is the matrix product c = a x b, or c += a x b with accumulate, of row-major matrices: c is m x n, a is m x k, b is k x n.
//
// Gemm, GemmTA and GemmTB may fuse products with sums and choose their order by the CPU: their bits are the same from run to run on one kind of machine, and
// nothing that servers apply may call them. c must not overlap a or b. They allocate nothing.
func Gemm(c, a, b []float32, m, k, n int, accumulate bool) {
	gemm(c[:m*n], operand{a[:m*k], k, 1}, operand{b[:k*n], n, 1}, shape{m, k, n}, accumulate)
}

// GemmTA is Gemm with the transpose of a, which is k x m.
func GemmTA(c, a, b []float32, m, k, n int, accumulate bool) {
	gemm(c[:m*n], operand{a[:m*k], 1, m}, operand{b[:k*n], n, 1}, shape{m, k, n}, accumulate)
}

// GemmTB is Gemm with the transpose of b, which is n x k.
func GemmTB(c, a, b []float32, m, k, n int, accumulate bool) {
	gemm(c[:m*n], operand{a[:m*k], k, 1}, operand{b[:k*n], 1, k}, shape{m, k, n}, accumulate)
}

// operand is a matrix whose element (i, j) is at i x row + j x col; one of them is 1.
type operand struct {
	data     []float32
	row, col int
}

// shape is of a product m x k by k x n.
type shape struct{ m, k, n int }

const (
	depth   = 256 // columns of a, or rows of b, taken at once
	maxRows = 8   // of a tile
	maxCols = 32
)

// gemm goes through b in panels of a tile's width and at most depth rows, packed one row after another, so that the tile kernel reads it in order
// and from the first cache; a is read in place. Tiles that stand out over an edge are made in a buffer.
func gemm(c []float32, a, b operand, s shape, accumulate bool) {
	rows, cols := tileShape()
	if s.n == 1 {
		gemmVector(c, a, b.data, s, accumulate)
		return
	}
	if rows == 0 || s.k == 0 {
		gemmPlain(c, a, b, s, accumulate)
		return
	}
	var panel [depth * maxCols]float32
	for l := 0; l < s.k; l += depth {
		deep := min(depth, s.k-l)
		for j := 0; j < s.n; j += cols {
			pack(panel[:deep*cols], b, l, j, cols, min(cols, s.n-j))
			gemmPanel(c, a, panel[:deep*cols], s, l, j, accumulate || l > 0)
		}
	}
}

// gemmPanel multiplies all rows of a, from column l on, with a panel into columns j on of c.
func gemmPanel(c []float32, a operand, panel []float32, s shape, l, j int, accumulate bool) {
	rows, cols := tileShape()
	deep := len(panel) / cols
	i := 0
	if s.n-j >= cols {
		for ; i+rows <= s.m; i += rows {
			gemmTile(deep, &a.data[i*a.row+l*a.col], 4*a.row, 4*a.col, &panel[0], &c[i*s.n+j], 4*s.n, accumulate)
		}
	}
	if i < s.m {
		gemmEdge(c, a, panel, s, i, l, j, accumulate)
	}
}

// gemmEdge is gemmPanel for rows i on, where tiles may stand out.
func gemmEdge(c []float32, a operand, panel []float32, s shape, i, l, j int, accumulate bool) {
	rows, cols := tileShape()
	deep := len(panel) / cols
	var left [maxRows * depth]float32
	var tile [maxRows * maxCols]float32
	for ; i < s.m; i += rows {
		high, wide := min(rows, s.m-i), min(cols, s.n-j)
		from, row, col := &a.data[i*a.row+l*a.col], 4*a.row, 4*a.col
		if high < rows { // the kernel reads all rows of a tile
			for r := range high {
				for d := range deep {
					left[d*rows+r] = a.data[(i+r)*a.row+(l+d)*a.col]
				}
			}
			from, row, col = &left[0], 4, 4*rows
		}
		gemmTile(deep, from, row, col, &panel[0], &tile[0], 4*cols, false)
		for r := range high {
			to := c[(i+r)*s.n+j:][:wide]
			if accumulate {
				addPlain(to, tile[r*cols:])
			} else {
				copy(to, tile[r*cols:])
			}
		}
	}
}

// pack writes rows l on and columns j on of b to a panel of cols columns, of which the matrix has wide; the others are zero.
func pack(panel []float32, b operand, l, j, cols, wide int) {
	deep := len(panel) / cols
	if wide < cols {
		clear(panel)
	}
	if b.col == 1 {
		for d := range deep {
			copy(panel[d*cols:][:wide], b.data[(l+d)*b.row+j:])
		}
		return
	}
	d8, w8 := deep&^7, wide&^7
	for r := 0; r < w8; r += 8 {
		for d := 0; d < d8; d += 8 {
			transpose8(&panel[d*cols+r], 4*cols, &b.data[(j+r)*b.col+l+d], 4*b.col)
		}
	}
	for r := range wide {
		from := b.data[(j+r)*b.col+l:][:deep]
		done := d8
		if r >= w8 {
			done = 0
		}
		for d := done; d < deep; d++ {
			panel[d*cols+r] = from[d]
		}
	}
}

// gemmVector is the product of a with a vector, as in a model's last layer: by dot products where the rows of a are contiguous, else a column at a time.
func gemmVector(c []float32, a operand, b []float32, s shape, accumulate bool) {
	if !accumulate {
		clear(c)
	}
	if a.col != 1 {
		for l, y := range b[:s.k] {
			Axpy(c, y, a.data[l*a.col:])
		}
		return
	}
	for i := range c {
		c[i] += Dot(b[:s.k], a.data[i*a.row:])
	}
}

// gemmPlain is the product without a tile kernel: a row of c at a time, by rows of b where they are contiguous, else by dot products.
func gemmPlain(c []float32, a, b operand, s shape, accumulate bool) {
	for i := range s.m {
		row := c[i*s.n:][:s.n]
		if !accumulate {
			clear(row)
		}
		if b.col == 1 {
			for l := range s.k {
				Axpy(row, a.data[i*a.row+l*a.col], b.data[l*b.row:])
			}
			continue
		}
		from := a.data[i*a.row:] // a and b are never transposed together
		for j := range row {
			row[j] += Dot(from[:s.k], b.data[j*b.col:])
		}
	}
}
