package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// partsOf answers how far each group's part is; nil: never.
type partsOf func(group uint32) *wire.CheckpointPart

func (f partsOf) Call(ctx context.Context, group uint32, _ wire.Message) (wire.Answer, []byte, error) {
	p := f(group)
	if p == nil {
		<-ctx.Done()
		return wire.Answer{}, nil, fmt.Errorf("ask group %d: %w", group, ctx.Err())
	}
	p.Group = group
	b, err := json.Marshal(p)
	return wire.Answer{}, b, err
}

// A part that does not get on ends the checkpoint, one that gets on slowly does not.
func TestPartsThatDoNotGetOn(t *testing.T) {
	t.Parallel()
	pages := func(n uint64) *wire.CheckpointPart { return &wire.CheckpointPart{State: wire.PartWriting, Pages: n} }
	done := &wire.CheckpointPart{State: wire.PartDone}
	tests := map[string]struct {
		part func(age time.Duration, group uint32) *wire.CheckpointPart
		want string
	}{
		"slow": {want: "", part: func(age time.Duration, _ uint32) *wire.CheckpointPart {
			if age > time.Hour {
				p := *done
				return &p
			}
			return pages(uint64(age / (4 * time.Minute)))
		}},
		"hangs": {want: "shard 1 has written nothing in 5m0s, after 7 pages", part: func(age time.Duration, group uint32) *wire.CheckpointPart {
			if group == 2 {
				return pages(7)
			}
			return pages(uint64(age / time.Minute))
		}},
		"silent": {want: "in 5m0s how far its part is", part: func(_ time.Duration, group uint32) *wire.CheckpointPart {
			if group == 2 {
				return nil
			}
			return pages(1)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				shards := partsOf(func(group uint32) *wire.CheckpointPart { return test.part(time.Since(began), group) })
				st := newState()
				st.Layout = layout.Layout{Shards: make([][]string, 2)}
				l := &leader{g: &Group{cfg: Config{Shards: shards}, state: st}, log: slog.New(slog.DiscardHandler)}
				s := &saver{job: "j", moved: began, parts: map[uint32]wire.CheckpointPart{}, grew: map[uint32]time.Time{}}
				err := l.poll(t.Context(), s, func(p wire.CheckpointPart) bool { return p.State == wire.PartDone })
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("after %v: %v, want %q", time.Since(began), err, test.want)
				}
			})
		})
	}
}
