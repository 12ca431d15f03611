package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// kind is a rule's name, parameters and constructor.
type kind struct {
	name   string
	params []param
	make   func(base config, p map[string]float64) Rule
}

// param is a parameter's name, default and range.
type param struct {
	name     string
	value    float64
	min, max float64
	above    bool // min itself is refused
	below    bool // max itself is refused
	whole    bool // a whole number
}

// kinds are all rules, in alphabetical order.
func kinds() []kind {
	rate := func(lr float64) param { return param{name: "lr", value: lr, max: 1e6} }
	decay := func(v float64) param { return param{name: "weight_decay", value: v, max: 1e6} }
	eps := func(v float64) param { return param{name: "eps", value: v, max: 1, above: true} }
	share := func(name string, v float64) param { return param{name: name, value: v, max: 1, below: true} }
	first := func(v float64) param { return param{name: "initial_accumulator", value: v, max: 1e6} }
	moments := func(epsilon, shrink float64) []param {
		return []param{rate(0.001), decay(shrink), eps(epsilon), share("beta1", 0.9), share("beta2", 0.999)}
	}
	oneBit := append(moments(1e-8, 0), param{name: "freeze_step", value: 1000, min: 1, max: 1e9, whole: true}, param{name: "floor", value: 0.1, max: 1})
	adagrad := []param{rate(0.05), decay(0), eps(1e-10), first(0.1)}
	momentum := []param{rate(0.01), decay(0), share("momentum", 0.9)}
	ftrl := []param{
		{name: "lr", value: 0.1, max: 1e6, above: true},
		{name: "beta", value: 1, max: 1e6, above: true},
		{name: "l1", max: 1e6},
		{name: "l2", max: 1e6},
		first(0),
	}
	return []kind{
		{"adagrad", adagrad, newAdagrad},
		{"adam", moments(1e-8, 0), newAdam},
		{"adamw", moments(1e-8, 0.01), newAdamW},
		{"amsgrad", moments(1e-8, 0), newAMSGrad},
		{"ftrl", ftrl, newFTRL},
		{"lamb", moments(1e-6, 0.01), newLAMB},
		{"lazy_adam", moments(1e-8, 0), newLazyAdam},
		{"momentum", momentum, newMomentum},
		{"nesterov", momentum, newNesterov},
		{OneBitAdam, oneBit, newOneBitAdam},
		{"rmsprop", []param{rate(0.01), decay(0), eps(1e-8), share("alpha", 0.99)}, newRMSprop},
		{"rowwise_adagrad", adagrad, newRowwiseAdagrad},
		{"sgd", []param{rate(0.01), decay(0)}, newSGD},
	}
}

// resolve fills in the defaults and checks what is given, in alphabetical order.
func resolve(c Config, params []param) (map[string]float64, error) {
	values := make(map[string]float64, len(params))
	names := make([]string, 0, len(params))
	for _, p := range params {
		values[p.name] = p.value
		names = append(names, p.name)
	}
	slices.Sort(names)
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		v := c.Params[name]
		at := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if at < 0 {
			faults = append(faults, fmt.Errorf("check optimizer %s: unknown parameter %q: nearest is %q", c.Name, name, Nearest(name, names)))
			continue
		}
		if p := params[at]; !p.allows(v) {
			faults = append(faults, fmt.Errorf("check optimizer %s: %s = %v: give %s", c.Name, name, v, p.limits()))
			continue
		}
		values[name] = v
	}
	return values, errors.Join(faults...)
}

func (p param) allows(v float64) bool {
	return v >= p.min && v <= p.max && (!p.above || v > p.min) && (!p.below || v < p.max) && (!p.whole || v == math.Trunc(v))
}

func (p param) limits() string {
	lower, upper := "at least", "at most"
	if p.above {
		lower = "above"
	}
	if p.below {
		upper = "below"
	}
	if p.whole {
		lower = "a whole number, " + lower
	}
	return fmt.Sprintf("%s %v and %s %v", lower, p.min, upper, p.max)
}

// config is the part all rules share.
type config struct{ c Config }

func (c config) Config() Config { return Config{Name: c.c.Name, Params: maps.Clone(c.c.Params)} }
