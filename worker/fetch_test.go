package worker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// meeting is a source and a model that wait for each other: from its second
// batch on the model ends only when the source has been asked for the batch after
// it, and that one is given only when the model has begun.
type meeting struct {
	*stream
	*shared
	asked, begun chan struct{}
	batches      int // asked for
	steps        int
	bad          int // the batch, from 0, that cannot be read; 0: none
}

var errUnreadable = errors.New("unreadable")

func (m *meeting) Next(b *dataset.Batch) (bool, error) {
	m.batches++
	if m.batches > 2 { // what the first batch uses was not known
		m.asked <- struct{}{}
		if err := meet(m.begun); err != nil {
			return false, err
		}
	}
	if m.bad > 0 && m.batches > m.bad {
		return false, errUnreadable
	}
	return m.stream.Next(b)
}

func (m *meeting) Step(s *worker.Step) error {
	m.steps++
	if m.steps > 1 {
		m.begun <- struct{}{}
		if err := meet(m.asked); err != nil {
			return err
		}
	}
	return m.shared.Step(s)
}

func meet(other <-chan struct{}) error {
	select {
	case <-other:
		return nil
	case <-time.After(time.Minute):
		return errors.New("the next batch is not fetched beside the model")
	}
}

func TestTheNextBatchIsFetchedBesideTheModel(t *testing.T) {
	t.Parallel()
	l := scratch(t)
	for _, bad := range []int{0, 5} {
		c := connect(t, l, worker.Config{Job: fmt.Sprint("bad ", bad)})
		m, err := newShared(t.Context(), c, sgd(0.1))
		if err != nil {
			t.Fatal(err)
		}
		want := error(nil)
		if bad > 0 {
			want = errUnreadable
		}
		meeting := func() *meeting {
			return &meeting{stream: &stream{rows: 100, batch: 10}, shared: m, bad: bad, asked: make(chan struct{}, 1), begun: make(chan struct{}, 1)}
		}
		both := meeting()
		if _, err := c.Evaluate(t.Context(), both, both); !errors.Is(err, want) {
			t.Errorf("evaluate: %v, want %v", err, want)
		}
		both = meeting()
		if _, err := c.Train(t.Context(), both, both, worker.TrainOptions{}); !errors.Is(err, want) {
			t.Errorf("train: %v, want %v", err, want)
		}
		if steps := map[int]uint64{0: 10, 5: 4}[bad]; c.Clock() != steps {
			t.Errorf("%d steps, want %d", c.Clock(), steps)
		}
	}
}
