package main

import "github.com/mmcloughlin/avo/reg"

// elementKernels are the loops of vec's update.go and norm.go; coefficients are in the order of the fields there, slots follow the weights, and the
// gradient comes last.
func elementKernels() []elementKernel {
	return []elementKernel{
		{name: "sgd", coeffs: 2, slices: []string{"w", "grad"}, body: sgd},
		{name: "momentum", coeffs: 3, slices: []string{"w", "m", "grad"}, body: func(e *env) { speed(e, false) }},
		{name: "nesterov", coeffs: 3, slices: []string{"w", "m", "grad"}, body: func(e *env) { speed(e, true) }},
		{name: "rms", coeffs: 5, slices: []string{"w", "s", "grad"}, body: rms},
		{name: "adam", coeffs: 9, slices: []string{"w", "m", "v", "grad"}, body: func(e *env) { adam(e, false) }},
		{name: "amsgrad", coeffs: 9, slices: []string{"w", "m", "v", "top", "grad"}, body: func(e *env) { adam(e, true) }},
		{name: "ftrl", coeffs: 5, slices: []string{"w", "z", "n2", "grad"}, body: ftrl},
		{name: "sumSquares", coeffs: 1, slices: []string{"w", "grad"}, sums: 1, body: sumSquares},
		{name: "adamNorms", coeffs: 10, slices: []string{"w", "m", "v", "grad"}, sums: 2, body: adamNorms},
	}
}

// decayed is g + decay x w.
func decayed(e *env, slice, decay int, w reg.VecVirtual) reg.VecVirtual {
	return e.add(e.load(slice), e.mul(e.c(decay), w))
}

func sgd(e *env) {
	const lr, decay = 0, 1
	w := e.load(0)
	g := decayed(e, 1, decay, w)
	e.store(0, e.sub(w, e.mul(e.c(lr), g)))
}

func speed(e *env, ahead bool) {
	const lr, mu, decay = 0, 1, 2
	w := e.load(0)
	g := decayed(e, 2, decay, w)
	m := e.add(e.mul(e.c(mu), e.load(1)), g)
	e.store(1, m)
	if ahead {
		m = e.add(g, e.mul(e.c(mu), m))
	}
	e.store(0, e.sub(w, e.mul(e.c(lr), m)))
}

func rms(e *env) {
	const lr, keep, gain, eps, decay = 0, 1, 2, 3, 4
	w := e.load(0)
	g := decayed(e, 2, decay, w)
	s := e.add(e.mul(e.c(keep), e.load(1)), e.mul(e.c(gain), e.mul(g, g)))
	e.store(1, s)
	e.store(0, e.sub(w, e.div(e.mul(e.c(lr), g), e.add(e.sqrt(s), e.c(eps)))))
}

// Coefficients of vec.Adam, and the decay that its norms take apart.
const (
	adamSize = iota
	adamCorr
	adamEps
	adamBeta1
	adamRest1
	adamBeta2
	adamRest2
	adamDecay
	adamKeep
	adamApart
)

// moments are the new first and second moment.
func moments(e *env, grad int, w reg.VecVirtual) (m, v reg.VecVirtual) {
	g := decayed(e, grad, adamDecay, w)
	m = e.add(e.mul(e.c(adamBeta1), e.load(1)), e.mul(e.c(adamRest1), g))
	v = e.add(e.mul(e.c(adamBeta2), e.load(2)), e.mul(e.c(adamRest2), e.mul(g, g)))
	return m, v
}

// quotient is size x m / (sqrt(v) x corr + eps).
func quotient(e *env, m, v reg.VecVirtual) reg.VecVirtual {
	return e.div(e.mul(e.c(adamSize), m), e.add(e.mul(e.sqrt(v), e.c(adamCorr)), e.c(adamEps)))
}

func adam(e *env, largest bool) {
	grad := 3
	if largest {
		grad = 4
	}
	w := e.load(0)
	m, v := moments(e, grad, w)
	e.store(1, m)
	e.store(2, v)
	if largest {
		v = e.max(e.load(3), v)
		e.store(3, v)
	}
	e.store(0, e.sub(e.mul(e.c(adamKeep), w), quotient(e, m, v)))
}

func adamNorms(e *env) {
	w := e.load(0)
	m, v := moments(e, 3, w)
	u := e.add(quotient(e, m, v), e.mul(e.c(adamApart), w))
	e.accumulate(0, e.mul(w, w))
	e.accumulate(1, e.mul(u, u))
}

func sumSquares(e *env) {
	w := e.load(0)
	g := decayed(e, 1, 0, w)
	e.accumulate(0, e.mul(g, g))
}

func ftrl(e *env) {
	const rate, inv, beta, l1, l2 = 0, 1, 2, 3, 4
	w, g, before := e.load(0), e.load(3), e.load(2)
	sum := e.add(before, e.mul(g, g))
	root := e.sqrt(sum)
	pull := e.mul(e.mul(e.sub(root, e.sqrt(before)), e.c(inv)), w)
	z := e.sub(e.add(e.load(1), e.mul(e.c(rate), g)), pull)
	e.store(2, sum)
	e.store(1, z)
	sign := e.and(e.signBit(), z)
	beyond := e.max(e.zero(), e.sub(e.xor(z, sign), e.c(l1)))
	q := e.div(beyond, e.add(e.mul(e.add(e.c(beta), root), e.c(inv)), e.c(l2)))
	e.store(0, e.sub(e.zero(), e.xor(q, sign)))
}
