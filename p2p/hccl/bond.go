package hccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hcclps/p2p/hccl/acl"
)

// bond is what a pair holds of a device: a communicator of two ranks and its streams. The communicator's operators go to
// one stream and no other. Copies to and from the host have streams of their own, so that one piece is copied while
// another is sent.
type bond struct {
	comm     acl.Comm
	name     string
	stream   acl.Stream // operators
	up, down acl.Stream // host to device, device to host
	ops      *lane      // waits for marks of stream
	downs    *lane      // waits for marks of down
	marks    []*mark
	watched  *watched
}

// mark is the two events around an operator.
type mark struct {
	start, end acl.Event
}

// maxSteps bounds the operators of a pair that are queued on its stream, so that the stream takes every launch at once.
const maxSteps = 16

// furnish makes the streams and marks, on the steward.
func (b *bond) furnish(lib *acl.Lib) error {
	for _, s := range []*acl.Stream{&b.stream, &b.up, &b.down} {
		var err error
		if *s, err = lib.CreateStream(); err != nil {
			return fmt.Errorf("make streams: %w", err)
		}
	}
	for range maxSteps {
		m := &mark{}
		b.marks = append(b.marks, m)
		for _, e := range []*acl.Event{&m.start, &m.end} {
			var err error
			if *e, err = lib.CreateEvent(); err != nil {
				return fmt.Errorf("make marks: %w", err)
			}
		}
	}
	return nil
}

// strip takes back what furnish made, on the steward.
func (b *bond) strip(lib *acl.Lib, force bool) error {
	var errs []error
	for _, m := range b.marks {
		for _, e := range []acl.Event{m.start, m.end} {
			if e != 0 {
				errs = append(errs, lib.DestroyEvent(e))
			}
		}
	}
	for _, s := range []acl.Stream{b.stream, b.up, b.down} {
		switch {
		case s == 0:
		case force && lib.Has("aclrtDestroyStreamForce"):
			errs = append(errs, lib.DestroyStreamForce(s))
		default:
			errs = append(errs, lib.DestroyStream(s))
		}
	}
	return errors.Join(errs...)
}

// ending says in which state a bond is given up.
type ending uint8

const (
	endDrained ending = iota // no work is left
	endBroken                // work may hang on the streams
	endStuck                 // the issuer may hang in the communicator
)

const (
	quietPoll    = 250 * time.Millisecond // between two looks whether a stream that cannot be aborted has given up
	quietSlack   = 15 * time.Second       // beyond the exec time-out
	uploadMillis = 2000
	destroyTries = 8
	destroyPause = 20 * time.Millisecond // doubled with each try
)

// bury gives a bond back in the background, in the order that keeps the device safe. freed is called when no work
// touches memory any more, with an error if that is not certain.
func (d *Device) bury(b *bond, e ending, freed func(error)) {
	d.live.Go(func() {
		d.waiter.drop(b.watched, b.ops, b.downs)
		var err error
		if e == endStuck {
			err = d.destroyComm(b) // which frees the issuer
		}
		passed := make(chan struct{})
		if d.issuer.post(func() { close(passed) }) {
			<-passed // nothing of the pair is queued there any more
		}
		halted := d.halt(b, e)
		freed(halted)
		if e == endDrained && b.comm != 0 {
			err = <-d.steward.start(func() error { return d.lib.AsyncError(b.comm) })
		}
		if e != endStuck {
			err = errors.Join(err, d.destroyComm(b))
		}
		err = errors.Join(err, halted, <-d.steward.start(func() error { return b.strip(d.lib, e != endDrained) }))
		d.release()
		if err != nil {
			d.log.Warn("pair was given back with faults", "communicator", b.name, "err", err)
		}
	})
}

// halt ends the work on the bond's streams. On those that are drained there may be a last copy to the device.
func (d *Device) halt(b *bond, e ending) error {
	if e == endDrained {
		return <-d.steward.start(func() error {
			if b.up == 0 {
				return nil
			}
			return d.lib.SynchronizeStream(b.up, uploadMillis)
		})
	}
	if d.family.canAbort() && d.lib.Has("aclrtStreamAbort") {
		err := <-d.steward.start(func() error {
			var errs []error
			for _, s := range []acl.Stream{b.stream, b.up, b.down} {
				if s != 0 {
					errs = append(errs, d.lib.AbortStream(s))
				}
			}
			return errors.Join(errs...)
		})
		if err == nil {
			return nil
		}
		d.log.Warn("stream cannot be aborted, its work is waited for", "communicator", b.name, "err", err)
	}
	ticker := time.NewTicker(quietPoll)
	defer ticker.Stop()
	limit := time.After(d.cfg.ExecTimeout + quietSlack)
	for {
		quiet := false
		if err := <-d.steward.start(func() (err error) { quiet, err = b.quiet(d.lib); return err }); err != nil {
			return err
		}
		if quiet {
			return nil
		}
		select {
		case <-ticker.C:
		case <-limit:
			return fmt.Errorf("wait for the streams of %s to give up: %w", b.name, context.DeadlineExceeded)
		}
	}
}

// quiet says whether no stream has work left. A stream whose work failed has none.
func (b *bond) quiet(lib *acl.Lib) (bool, error) {
	for _, s := range []acl.Stream{b.stream, b.up, b.down} {
		if s == 0 {
			continue
		}
		done, err := lib.StreamDone(s)
		if e := (*acl.Error)(nil); err != nil && !errors.As(err, &e) {
			return false, err
		}
		if err == nil && !done {
			return false, nil
		}
	}
	return true, nil
}

// destroyComm destroys the communicator on the builder. HCCL may ask to try again while a call is inside.
func (d *Device) destroyComm(b *bond) error {
	if b.comm == 0 {
		return nil
	}
	pause := destroyPause
	for try := 1; ; try++ {
		err := <-d.builder.start(func() error { return d.lib.CommDestroy(b.comm) })
		if err == nil || !acl.IsAgain(err) || try == destroyTries {
			return err
		}
		<-time.After(pause)
		pause *= 2
	}
}

func newBond(name string) *bond {
	return &bond{name: name, ops: &lane{}, downs: &lane{}, watched: &watched{}}
}
