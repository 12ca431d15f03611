package link

import (
	"testing"
	"testing/synctest"
)

func TestOutboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		call := frame{kind: kindCall, bodyLen: MaxInline}
		body := [][]byte{make([]byte, MaxInline)}
		sent, gone := 0, make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for o.send(call, body, nil, gone) {
				sent++
			}
		}()
		synctest.Wait()
		if most := outboxRoom/MaxInline + 1; sent < 2 || sent > most {
			t.Errorf("%d calls were taken, at most %d have room", sent, most)
		}
		o.post(frame{kind: kindHeartbeat}) // is never held up
		first := sent
		if got := len(o.take()); got < first*MaxInline {
			t.Errorf("%d bytes for the writer", got)
		}
		synctest.Wait()
		if sent != 2*first {
			t.Errorf("%d calls more were taken after the writer took %d", sent-first, first)
		}
		close(gone)
		<-ended
	})
}
