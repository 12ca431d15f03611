package vec

import (
	"math"
	"unsafe"
)

// The types below are the element loops of ps/optim, each with its coefficients; ps/optim says what they mean and where they come from.
// Elements are computed in float64 from float32 and rounded once to each float32 that is stored, a NaN always to the same bits; no product is fused with a
// sum. So the bits are the same with and without kernels and on every CPU. All slices must be at least as long as the gradient g, and must not overlap.

// SGD is w = w - LR x g. In all updates g is first g + Decay x w.
type SGD struct{ LR, Decay float64 }

// Update changes w.
func (p *SGD) Update(w, g []float32) {
	n := len(g)
	w = w[:n]
	done := sgdFast(&p.LR, unsafe.SliceData(w), unsafe.SliceData(g), n)
	if done < n {
		p.plain(w[done:], g[done:])
	}
}

func (p *SGD) plain(w, g []float32) {
	w = w[:len(g)]
	lr, decay := p.LR, p.Decay
	for i, g32 := range g {
		old := float64(w[i])
		grad := float64(g32) + float64(decay*old)
		w[i] = rounded(old - float64(lr*grad))
	}
}

// Momentum is m = Mu x m + g; w = w - LR x m.
type Momentum struct{ LR, Mu, Decay float64 }

// Update changes w and m.
func (p *Momentum) Update(w, m, g []float32) {
	n := len(g)
	w, m = w[:n], m[:n]
	done := momentumFast(&p.LR, unsafe.SliceData(w), unsafe.SliceData(m), unsafe.SliceData(g), n)
	if done < n {
		p.plain(w[done:], m[done:], g[done:])
	}
}

func (p *Momentum) plain(w, m, g []float32) {
	w, m = w[:len(g)], m[:len(g)]
	lr, mu, decay := p.LR, p.Mu, p.Decay
	for i, g32 := range g {
		old := float64(w[i])
		grad := float64(g32) + float64(decay*old)
		speed := float64(mu*float64(m[i])) + grad
		m[i] = rounded(speed)
		w[i] = rounded(old - float64(lr*speed))
	}
}

// Nesterov is m = Mu x m + g; w = w - LR x (g + Mu x m).
type Nesterov struct{ LR, Mu, Decay float64 }

// Update changes w and m.
func (p *Nesterov) Update(w, m, g []float32) {
	n := len(g)
	w, m = w[:n], m[:n]
	done := nesterovFast(&p.LR, unsafe.SliceData(w), unsafe.SliceData(m), unsafe.SliceData(g), n)
	if done < n {
		p.plain(w[done:], m[done:], g[done:])
	}
}

func (p *Nesterov) plain(w, m, g []float32) {
	w, m = w[:len(g)], m[:len(g)]
	lr, mu, decay := p.LR, p.Mu, p.Decay
	for i, g32 := range g {
		old := float64(w[i])
		grad := float64(g32) + float64(decay*old)
		speed := float64(mu*float64(m[i])) + grad
		m[i] = rounded(speed)
		w[i] = rounded(old - float64(lr*(grad+float64(mu*speed))))
	}
}

// RMS is s = Keep x s + Gain x g x g; w = w - LR x g / (sqrt(s) + Eps): with Keep = Gain = 1 it is Adagrad.
type RMS struct{ LR, Keep, Gain, Eps, Decay float64 }

// Update changes w and s.
func (p *RMS) Update(w, s, g []float32) {
	n := len(g)
	w, s = w[:n], s[:n]
	done := rmsFast(&p.LR, unsafe.SliceData(w), unsafe.SliceData(s), unsafe.SliceData(g), n)
	if done < n {
		p.plain(w[done:], s[done:], g[done:])
	}
}

func (p *RMS) plain(w, s, g []float32) {
	w, s = w[:len(g)], s[:len(g)]
	c := *p
	for i, g32 := range g {
		old := float64(w[i])
		grad := float64(g32) + float64(c.Decay*old)
		square := float64(grad * grad)
		sum := float64(c.Keep*float64(s[i])) + float64(c.Gain*square)
		s[i] = rounded(sum)
		w[i] = rounded(old - float64(c.LR*grad)/(math.Sqrt(sum)+c.Eps))
	}
}

// Adam is m = Beta1 x m + Rest1 x g; v = Beta2 x v + Rest2 x g x g; w = Keep x w - Size x m / (sqrt(v) x Corr + Eps).
type Adam struct{ Size, Corr, Eps, Beta1, Rest1, Beta2, Rest2, Decay, Keep float64 }

// Update changes w, m and v.
func (p *Adam) Update(w, m, v, g []float32) {
	n := len(g)
	w, m, v = w[:n], m[:n], v[:n]
	done := adamFast(&p.Size, unsafe.SliceData(w), unsafe.SliceData(m), unsafe.SliceData(v), unsafe.SliceData(g), n)
	if done < n {
		p.plain(w[done:], m[done:], v[done:], g[done:])
	}
}

func (p *Adam) plain(w, m, v, g []float32) {
	w, m, v = w[:len(g)], m[:len(g)], v[:len(g)]
	c := *p
	for i, g32 := range g {
		old := float64(w[i])
		first, second := c.moments(old, m[i], v[i], g32)
		m[i], v[i] = rounded(first), rounded(second)
		w[i] = rounded(float64(c.Keep*old) - float64(c.Size*first)/(float64(math.Sqrt(second)*c.Corr)+c.Eps))
	}
}

// moments are the new m and v of one element.
func (p *Adam) moments(w float64, m, v, g float32) (first, second float64) {
	grad := float64(g) + float64(p.Decay*w)
	square := float64(grad * grad)
	return float64(p.Beta1*float64(m)) + float64(p.Rest1*grad), float64(p.Beta2*float64(v)) + float64(p.Rest2*square)
}

// AMSGrad is Adam with the largest v so far, kept in top, under the root.
type AMSGrad Adam

// Update changes w, m, v and top.
func (p *AMSGrad) Update(w, m, v, top, g []float32) {
	n := len(g)
	w, m, v, top = w[:n], m[:n], v[:n], top[:n]
	done := amsgradFast(&p.Size, unsafe.SliceData(w), unsafe.SliceData(m), unsafe.SliceData(v), unsafe.SliceData(top), unsafe.SliceData(g), n)
	if done < n {
		p.plain(w[done:], m[done:], v[done:], top[done:], g[done:])
	}
}

func (p *AMSGrad) plain(w, m, v, top, g []float32) {
	w, m, v, top = w[:len(g)], m[:len(g)], v[:len(g)], top[:len(g)]
	c := Adam(*p)
	for i, g32 := range g {
		old := float64(w[i])
		first, second := c.moments(old, m[i], v[i], g32)
		m[i], v[i] = rounded(first), rounded(second)
		if most := float64(top[i]); most > second {
			second = most
		}
		top[i] = rounded(second)
		w[i] = rounded(float64(c.Keep*old) - float64(c.Size*first)/(float64(math.Sqrt(second)*c.Corr)+c.Eps))
	}
}

// FTRL is n' = n + g x g; z = z + Rate x g - (sqrt(n') - sqrt(n)) x Inv x w; n = n';
// w = 0 if |z| <= L1, else -(z - sign(z) x L1) / ((Beta + sqrt(n)) x Inv + L2).
type FTRL struct{ Rate, Inv, Beta, L1, L2 float64 }

// Update changes w, z and n.
func (p *FTRL) Update(w, z, n, g []float32) {
	count := len(g)
	w, z, n = w[:count], z[:count], n[:count]
	done := ftrlFast(&p.Rate, unsafe.SliceData(w), unsafe.SliceData(z), unsafe.SliceData(n), unsafe.SliceData(g), count)
	if done < count {
		p.plain(w[done:], z[done:], n[done:], g[done:])
	}
}

func (p *FTRL) plain(w, z, n, g []float32) {
	w, z, n = w[:len(g)], z[:len(g)], n[:len(g)]
	c := *p
	for i, g32 := range g {
		grad, before := float64(g32), float64(n[i])
		sum := before + float64(grad*grad)
		root := math.Sqrt(sum)
		pull := float64(float64((root-math.Sqrt(before))*c.Inv) * float64(w[i]))
		linear := float64(z[i]) + float64(c.Rate*grad) - pull
		n[i], z[i] = rounded(sum), rounded(linear)
		beyond := math.Abs(linear) - c.L1
		if beyond < 0 {
			beyond = 0
		}
		w[i] = rounded(0 - math.Copysign(beyond/(float64((c.Beta+root)*c.Inv)+c.L2), linear))
	}
}

// rounded is the float32 nearest to v; all NaNs become one.
func rounded(v float64) float32 {
	f := float32(v)
	if f != f {
		return math.Float32frombits(0x7fc00000)
	}
	return f
}
