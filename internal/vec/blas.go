package vec

import "unsafe"

// Add adds src to dst, element by element. len(src) must be at least len(dst).
//
// Add, Scale, Axpy, Axpby and Dot give the same bits with and without kernels and on every CPU, except that a NaN is only sure to be a NaN.
func Add(dst, src []float32) {
	n := len(dst)
	src = src[:n]
	done := addFast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	if done < n {
		addPlain(dst[done:], src[done:])
	}
}

func addPlain(dst, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

// Scale multiplies every element of dst by k.
func Scale(dst []float32, k float32) {
	n := len(dst)
	done := scaleFast(unsafe.SliceData(dst), k, n)
	if done < n {
		scalePlain(dst[done:], k)
	}
}

func scalePlain(dst []float32, k float32) {
	for i := range dst {
		dst[i] *= k
	}
}

// Axpy adds k x src to dst; the product is rounded before the sum. len(src) must be at least len(dst).
func Axpy(dst []float32, k float32, src []float32) {
	n := len(dst)
	src = src[:n]
	done := axpyFast(unsafe.SliceData(dst), k, unsafe.SliceData(src), n)
	if done < n {
		axpyPlain(dst[done:], k, src[done:])
	}
}

func axpyPlain(dst []float32, k float32, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += float32(k * src[i])
	}
}

// Axpby adds a x x + b x y to dst: both products are rounded before their sum, and that before it is added. len(x) and len(y) must be at least len(dst).
func Axpby(dst []float32, a float32, x []float32, b float32, y []float32) {
	n := len(dst)
	x, y = x[:n], y[:n]
	done := axpbyFast(unsafe.SliceData(dst), a, unsafe.SliceData(x), b, unsafe.SliceData(y), n)
	if done < n {
		axpbyPlain(dst[done:], a, x[done:], b, y[done:])
	}
}

func axpbyPlain(dst []float32, a float32, x []float32, b float32, y []float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i := range dst {
		sum := float32(a*x[i]) + float32(b*y[i])
		dst[i] = sum + dst[i]
	}
}

// dotLanes is the number of partial sums of Dot.
const dotLanes = 32

// Dot is the sum of the products of a and b. Product i, rounded, is added to partial sum i mod 32 in ascending order; then the upper half of the
// partial sums is added to the lower, until one is left. len(b) must be at least len(a).
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	if sum, ok := dotFast(a, b); ok {
		return sum
	}
	return dotPlain(a, b)
}

func dotPlain(a, b []float32) float32 {
	var lanes [dotLanes]float32
	return dotRest(&lanes, a, b)
}

// dotRest adds the products of a and b to the partial sums, which end at a multiple of 32, and folds them.
func dotRest(lanes *[dotLanes]float32, a, b []float32) float32 {
	for len(a) >= dotLanes && len(b) >= dotLanes {
		x, y := (*[dotLanes]float32)(a), (*[dotLanes]float32)(b)
		for i := range lanes {
			lanes[i] += float32(x[i] * y[i])
		}
		a, b = a[dotLanes:], b[dotLanes:]
	}
	for i, x := range a {
		lanes[i] += float32(x * b[i])
	}
	for half := dotLanes / 2; half > 0; half /= 2 {
		for i := range half {
			lanes[i] += lanes[i+half]
		}
	}
	return lanes[0]
}
