package p2p

import (
	"context"
	"time"
)

// Bound ends what waits for conn when ctx ends, by a deadline in the past, for exchanges that take a context over connections that take none. What
// it returns is called once, after the exchange: it takes that back, or says that ctx has ended first, for which reason, and that conn is spent.
func Bound(ctx context.Context, conn interface{ SetDeadline(t time.Time) error }) (release func() error) {
	struck := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(struck)
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails only on a closed conn
	})
	return func() error {
		if stop() {
			return nil
		}
		<-struck // the deadline does not come later, on what conn is used for next
		return context.Cause(ctx)
	}
}
