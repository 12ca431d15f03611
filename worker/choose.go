package worker

import (
	"slices"
	"time"

	"hcclps/compress"
)

const (
	// chooseEvery is for how many steps a codec that was chosen stays.
	chooseEvery = 64
	// watchEvery is at how many steps once the residual is compared with the gradient.
	watchEvery = 8
	// measuredOn is on how many elements codecs are timed.
	measuredOn = 1 << 16
	// alarmAt is how many gradients long a residual may be, over some steps, where the codec sends something of each element.
	alarmAt = 10
)

// automatic are the codecs that are chosen from, from the most exact to the least.
func automatic() []string { return []string{"none", "bf16", "int8", "twobit", "onebit"} }

// chooser makes what chooses the codec of a table: one of automatic, by the speed of the link and those of the codecs on this machine, which are
// measured once.
func (c *coders) chooser() (*compress.Auto, error) {
	if c.choice == nil {
		began := time.Now()
		clock := func() time.Duration { return time.Since(began) }
		for _, name := range automatic() {
			codec, err := compress.Parse(name)
			if err != nil {
				return nil, err
			}
			speed, err := compress.Measure(codec, measuredOn, clock)
			if err != nil {
				return nil, err
			}
			c.choice = append(c.choice, compress.Candidate{Codec: codec, Speed: speed})
		}
		exact := &c.choice[0].Speed // where the link is no matter, no code is better than one that is as fast
		for _, o := range c.choice {
			exact.Encode, exact.Decode = max(exact.Encode, o.Speed.Encode), max(exact.Decode, o.Speed.Decode)
		}
	}
	return compress.NewAuto(compress.AutoConfig{Candidates: c.choice, Alarm: alarmAt, Hold: 1000 / watchEvery})
}

// choose takes the codec that suits a link for n elements, from time to time. Nothing is known of a link without a bandwidth.
func (c *coders) choose(k *coder, step uint64, n int, measured func() compress.Link) {
	if k.auto == nil || step%chooseEvery != 0 && k.watch.calm {
		return
	}
	link := measured()
	if link.Bandwidth <= 0 {
		return
	}
	was := k.codec
	if k.use(k.auto.Choose(n, link)); k.codec != was {
		c.log.Info("codec chosen", "table", k.spec.Name, "codec", k.codec.String(), "before", was.String(), "step", step, "elements", n, "bandwidth", link.Bandwidth, "latency", link.Latency)
	}
	k.watch.calm = true
}

// watchdog looks whether a codec keeps too much of the gradient back.
type watchdog struct {
	calm   bool // the codec has been chosen since the last alarm
	said   bool // an alarm was logged
	full   bool // and that residuals were dropped
	seen   int
	smooth float64 // residuals in gradients
}

// look compares the residual with the gradient of a step, and says once what to do if it is too long.
func (c *coders) look(k *coder, step uint64, gradient []float32) {
	if step%watchEvery != 0 {
		return
	}
	if k.rows != nil && k.rows.Dropped() > 0 && !k.watch.full {
		k.watch.full = true
		c.log.Warn("there is no room for more residuals: of rows that have not come for long, what was late is lost", "table", k.spec.Name, "codec", k.codec.String(), "rows", k.rows.Len(),
			"do", "give the table a more exact codec, as in --compress "+k.spec.Name+"=bf16")
	}
	own := compress.Norm(gradient)
	rest := k.rest()
	alarm := k.auto != nil && k.auto.Observe(k.codec, rest, own)
	if k.auto == nil && own > 0 {
		k.watch.seen++
		k.watch.smooth += (rest/own - k.watch.smooth) / float64(min(k.watch.seen, 2*watchEvery))
		alarm = k.watch.seen > 2*watchEvery && k.watch.smooth > alarmAt/compress.Share(k.codec)
	}
	if !alarm {
		return
	}
	k.watch.calm = false
	if k.watch.said {
		return
	}
	k.watch.said = true
	do := "give the table a more exact codec, as in --compress " + k.spec.Name + "=int8, or a lower learning rate"
	if k.auto != nil {
		do = "nothing: a more exact codec is taken for a time"
	}
	c.log.Warn("a codec keeps much of the gradient back", "table", k.spec.Name, "codec", k.codec.String(), "step", step, "residual", rest, "gradient", own, "do", do)
}

// rest is the length of the residual, of a table's the rows of the last push.
func (k *coder) rest() float64 {
	if k.dense != nil {
		return k.dense.Norm()
	}
	return k.rows.LastNorm()
}

// agreed makes the codec that all workers agreed on that of a table which leaves the choice to them.
func (r *replica) agreed(k *coder) {
	if k.auto != nil {
		k.use(r.coders.choice[r.codec].Codec)
	}
}

// propose is rank 0's proposal for the next step, after it has given n elements in codes to this one: the most exact codec that a table is allowed.
func (r *replica) propose(step uint64, n int) uint8 {
	link := r.squeeze.link
	if n == 0 || r.rank() != 0 || link.Bandwidth <= 0 || step%chooseEvery != 0 {
		return r.codec
	}
	best := -1
	for _, t := range r.tables {
		k, err := r.coderOf(t.Spec.ID)
		if err != nil || k == nil || k.auto == nil {
			continue
		}
		c := k.auto.Choose(n, link)
		i := slices.IndexFunc(r.coders.choice, func(o compress.Candidate) bool { return o.Codec == c })
		if best < 0 || i < best {
			best = i
		}
	}
	if best < 0 || best == int(r.codec) {
		return r.codec
	}
	r.log.Info("codec chosen", "codec", automatic()[best], "before", automatic()[r.codec], "step", step, "elements", n, "bandwidth", link.Bandwidth)
	return uint8(best)
}
