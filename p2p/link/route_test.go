package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/link"
)

var errLeader = errors.New("not leader")

func three() []string { return []string{"s1:1", "s2:1", "s3:1"} }

// script answers the n-th attempt with verdicts[n], and Done after the last.
func script(asked *[]string, verdicts ...link.Verdict) func(context.Context, string) (link.Verdict, error) {
	return func(_ context.Context, addr string) (link.Verdict, error) {
		*asked = append(*asked, addr)
		if n := len(*asked); n <= len(verdicts) {
			return verdicts[n-1], errLeader
		}
		return link.Done(), nil
	}
}

func TestRoute(t *testing.T) {
	next := link.Next()
	for name, c := range map[string]struct {
		first    string
		verdicts []link.Verdict
		asked    string
		least    time.Duration // it takes
		most     time.Duration
	}{
		"first answers":        {asked: "s1:1"},
		"first is preferred":   {first: "s3:1", asked: "s3:1"},
		"next":                 {verdicts: []link.Verdict{next, next}, asked: "s1:1 s2:1 s3:1"},
		"next after first":     {first: "s2:1", verdicts: []link.Verdict{next, next}, asked: "s2:1 s1:1 s3:1"},
		"hint at once":         {verdicts: []link.Verdict{link.Hint("s3:1")}, asked: "s1:1 s3:1"},
		"hint to a stranger":   {verdicts: []link.Verdict{link.Hint("s9:1")}, asked: "s1:1 s9:1"},
		"empty hint":           {verdicts: []link.Verdict{link.Hint("")}, asked: "s1:1 s2:1"},
		"hints in a circle":    {verdicts: []link.Verdict{link.Hint("s2:1"), link.Hint("s1:1")}, asked: "s1:1 s2:1 s3:1"},
		"busy":                 {verdicts: []link.Verdict{link.Busy(time.Second), link.Busy(time.Second)}, asked: "s1:1 s1:1 s1:1", least: 2 * time.Second, most: 2500 * time.Millisecond},
		"all asked, then wait": {verdicts: []link.Verdict{next, next, next}, asked: "s1:1 s2:1 s3:1 s1:1", least: 1, most: 20 * time.Millisecond},
		"old hint comes first": {verdicts: []link.Verdict{next, next, link.Hint("s2:1")}, asked: "s1:1 s2:1 s3:1 s2:1", least: 1, most: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				began := time.Now()
				got, err := link.Route{Op: "op", Replicas: three, First: c.first}.Do(t.Context(), script(&asked, c.verdicts...))
				check(t, err)
				if s := strings.Join(asked, " "); s != c.asked || got != asked[len(asked)-1] {
					t.Errorf("asked %s, want %s; answered by %s", s, c.asked, got)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestRouteEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		began := time.Now()
		_, err := link.Route{Op: "push step 7 to shard 3", Replicas: three}.Do(t.Context(), func(_ context.Context, addr string) (link.Verdict, error) {
			n++
			if addr == "s2:1" {
				return link.Next(), &link.Error{Op: "connect to", Addr: addr, Err: link.ErrUnreachable}
			}
			return link.Next(), errLeader
		})
		if took := time.Since(began); took != time.Minute {
			t.Errorf("gave up after %v", took)
		}
		if n < 500 || n > 1500 {
			t.Errorf("%d attempts in a minute", n)
		}
		for _, kind := range []error{context.DeadlineExceeded, errLeader, link.ErrUnreachable} {
			want(t, err, kind, "push step 7 to shard 3: no success within 1m0s", "s1:1: not leader (x", "connect to s2:1: unreachable (x", "s3:1: not leader (x")
		}
		var re *link.RouteError
		if !errors.As(err, &re) || len(re.Attempts) != 3 {
			t.Errorf("%#v", err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = link.Route{Op: "op", Replicas: three, First: "s9:1"}.Do(ctx, func(context.Context, string) (link.Verdict, error) {
			return link.Busy(time.Hour), errors.New("inbox full")
		})
		want(t, err, context.DeadlineExceeded, "s9:1: inbox full")
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = link.Route{Op: "op"}.Do(ctx, script(new([]string)))
		want(t, err, context.DeadlineExceeded, "no replica")
	})
}

func TestRouteStopsAtAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fenced := errors.New("fenced by incarnation 4")
		_, err := link.Route{Op: "op", Replicas: three}.Do(t.Context(), func(_ context.Context, addr string) (link.Verdict, error) {
			if addr == "s2:1" {
				return link.Fatal(), fenced
			}
			return link.Next(), errLeader
		})
		want(t, err, fenced, "op: ask s2:1: fenced by incarnation 4; tried s1:1: not leader")
	})
}

func TestRouteKeepsTheErrorOfDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		got, err := link.Route{Op: "op", Replicas: three}.Do(t.Context(), func(_ context.Context, addr string) (link.Verdict, error) {
			asked = append(asked, addr)
			return link.Done(), errLeader
		})
		want(t, err, errLeader, "op: ask s1:1: not leader")
		if got != "" || len(asked) != 1 {
			t.Errorf("answered by %q after %v", got, asked)
		}
	})
}

func TestRouteBoundsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got, err := link.Route{Op: "op", Replicas: three, PerTry: time.Second}.Do(t.Context(), func(ctx context.Context, addr string) (link.Verdict, error) {
			if addr == "s1:1" {
				<-ctx.Done()
				return link.Next(), fmt.Errorf("pull: %w", context.Cause(ctx))
			}
			return link.Done(), nil
		})
		check(t, err)
		if took := time.Since(began); got != "s2:1" || took != time.Second {
			t.Errorf("%s answered after %v", got, took)
		}
	})
}

func TestRouteErrorIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		_, err := link.Route{Op: "op", Replicas: three, Timeout: 10 * time.Minute}.Do(t.Context(), func(context.Context, string) (link.Verdict, error) {
			n++
			return link.Next(), fmt.Errorf("cause %c%c", 'a'+n/26%26, 'a'+n%26)
		})
		want(t, err, context.DeadlineExceeded, "more attempts")
		if len(err.Error()) > 2000 {
			t.Errorf("%d bytes of error", len(err.Error()))
		}
	})
}

// What differs in numbers alone is one attempt, as it was the last time.
func TestRouteErrorCountsWhatDiffersInNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, refused := 0, errors.New("refused")
		_, err := link.Route{Op: "op", Replicas: three}.Do(t.Context(), func(context.Context, string) (link.Verdict, error) {
			if n++; n <= 20 {
				return link.Busy(time.Millisecond), fmt.Errorf("busy: tables use %d bytes", n*1000)
			}
			return link.Fatal(), refused
		})
		want(t, err, refused, "op: ask s1:1: refused; tried s1:1: busy: tables use 20000 bytes (x20)")
		if strings.Count(err.Error(), "busy") != 1 {
			t.Error(err)
		}
	})
}
