package collective

import (
	"context"
	"errors"
	"time"
)

// Whoever waits for an operation on shared memory carries it out himself if it is its turn, which spares two switches of goroutines. He does not sleep in it:
// what takes longer than it is worth while to look at is handed to Run. While operations are carried out so one after the other, Run is not even
// woken when one is posted; it looks every millisecond whether that is still so.
const (
	hotAfter  = 8 // operations in a row that were carried out by those who wait
	coolAfter = time.Millisecond
)

// driver is who carries out the current operation, and whether Run need not be woken for the next. Its owner locks it.
type driver struct {
	run    context.Context //nolint:containedctx // Run's, for operations that others carry out
	busy   bool            // somebody who waits is at the current operation
	handed bool            // he has left it to Run
	broken error           // it has failed, which is Run's affair
	ending bool            // Run waits for his end

	drove int   // in a row
	seen  int   // of drove, when Run looked last
	head  *Work // that waited when Run looked last
}

func (d *driver) hot() bool { return d.drove >= hotAfter }

func (d *driver) cool() { d.drove = 0 }

// look is Run's look while hot: nobody comes any more, or an operation waits that nobody waits for.
func (d *driver) look(queue []*Work) {
	if d.seen == d.drove || len(queue) > 0 && queue[0] == d.head {
		d.cool()
	}
	d.seen, d.head = d.drove, nil
	if len(queue) > 0 {
		d.head = queue[0]
	}
}

// drive carries w out if it is its turn and nobody is at it.
func (g *Group) drive(w *Work) {
	g.mu.Lock()
	d := &g.driver
	if g.current != nil || len(g.queue) == 0 || g.queue[0] != w || d.run == nil || g.closed || g.dead != nil {
		g.mu.Unlock()
		return
	}
	g.take()
	d.busy = true
	d.drove++
	ctx, begins := d.run, d.drove == hotAfter
	g.mu.Unlock()
	if begins {
		g.poke() // so that Run begins to look
	}

	s := g.all.shared
	s.hasty = true
	g.all.begin(ctx, w.call)
	err := w.run(g.all)
	s.hasty = false
	if err == nil {
		g.finish(w, nil)
		return
	}
	g.mu.Lock()
	d.busy = false
	if d.handed = errors.Is(err, errLater); !d.handed {
		d.broken = err
	}
	d.cool()
	g.mu.Unlock()
	g.poke()
}

// hasten wakes Run for an operation that nobody carries out.
func (g *Group) hasten() {
	g.mu.Lock()
	g.driver.cool()
	g.mu.Unlock()
	g.poke()
}
