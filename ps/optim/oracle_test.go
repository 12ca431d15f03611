package optim_test

import (
	"math"

	"hcclps/ps/optim"
)

func widened(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// oracle is one step on one row, by the textbook, in float64. The row is weights, then slots.
func oracle(c optim.Config, step int, rate float64, row, grad []float64) {
	p, n := c.Params, len(grad)
	lr := rate * p["lr"]
	slot := func(k, i int) *float64 { return &row[(1+k)*n+i] }
	coupled := c.Name != "adamw" && c.Name != "lamb"
	t := float64(step)
	b1, b2 := p["beta1"], p["beta2"]
	frozen := c.Name == "onebit_adam" && t > p["freeze_step"]
	switch c.Name {
	case "rowwise_adagrad":
		sum := 0.0
		for i, g := range grad {
			g += p["weight_decay"] * row[i]
			sum += g * g
		}
		row[n] += sum / float64(n)
	case "lazy_adam":
		row[3*n]++
	case "onebit_adam":
		if t > p["freeze_step"] && row[3*n] == 0 {
			row[3*n] = 1
			raise(row[2*n:3*n], p["floor"])
		}
	}
	updates, weights, size := make([]float64, n), 0.0, 0.0
	for i, g := range grad {
		w := row[i]
		if coupled {
			g += p["weight_decay"] * w
		}
		var u float64 // what lr multiplies
		switch c.Name {
		case "sgd":
			u = g
		case "momentum", "nesterov":
			m := slot(0, i)
			*m = p["momentum"]**m + g
			u = *m
			if c.Name == "nesterov" {
				u = g + p["momentum"]**m
			}
		case "adagrad":
			s := slot(0, i)
			*s += g * g
			u = g / (math.Sqrt(*s) + p["eps"])
		case "rowwise_adagrad":
			u = g / (math.Sqrt(row[n]) + p["eps"])
		case "rmsprop":
			s := slot(0, i)
			*s = p["alpha"]**s + (1-p["alpha"])*g*g
			u = g / (math.Sqrt(*s) + p["eps"])
		case "ftrl":
			z, sum := slot(0, i), slot(1, i)
			sigma := (math.Sqrt(*sum+g*g) - math.Sqrt(*sum)) / p["lr"]
			*z += rate*g - sigma*w
			*sum += g * g
			row[i] = 0
			if math.Abs(*z) > p["l1"] {
				row[i] = -(*z - math.Copysign(p["l1"], *z)) / ((p["beta"]+math.Sqrt(*sum))/p["lr"] + p["l2"])
			}
			continue
		default:
			m, v := slot(0, i), slot(1, i)
			before := *v
			*m = b1**m + (1-b1)*g
			*v = b2**v + (1-b2)*g*g
			second := *v
			seen := t
			if frozen {
				*m, *v, second, seen = grad[i], before, before, p["freeze_step"]
			}
			if c.Name == "amsgrad" {
				top := slot(2, i)
				*top = max(*top, *v)
				second = *top
			}
			u = *m / (1 - math.Pow(b1, t)) / (math.Sqrt(second/(1-math.Pow(b2, seen))) + p["eps"])
			if !coupled {
				u += p["weight_decay"] * w
			}
		}
		updates[i] = u
		weights += w * w
		size += u * u
	}
	if c.Name == "ftrl" {
		return
	}
	if c.Name == "lamb" && weights > 0 && size > 0 {
		lr *= math.Sqrt(weights) / math.Sqrt(size)
	}
	for i, u := range updates {
		row[i] -= lr * u
	}
}

// raise lifts what is below a share of the mean of what is above 0.
func raise(v []float64, floor float64) {
	sum, n := 0.0, 0.0
	for _, x := range v {
		if x > 0 {
			sum, n = sum+x, n+1
		}
	}
	for i, x := range v {
		v[i] = max(x, floor*sum/max(n, 1))
	}
}
