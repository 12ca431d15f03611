package shard

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"hcclps/internal/vec"
	"hcclps/p2p"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// minus subtracts the gradient.
type minus struct{}

func (minus) Update(row, grad []float32) {
	for i, g := range grad {
		row[i] -= g
	}
}

// TestAViewIsWhatWasGathered: in pieces of any length, from any offset on, also when tables change in the middle.
func TestAViewIsWhatWasGathered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, settled := range []bool{false, true} {
		var v view
		var want []float32
		var tables []*table.Table
		keys := []uint64{1, 2, 3, 9, 40, 41, 77}
		for _, dim := range []int{1, 3, 16, 1024} {
			tab, err := table.New(table.Spec{Dim: dim, Init: table.Init{Kind: "uniform", A: -1, B: 1}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tab.Close() }()
			if err := tab.Apply(keys[:4], make([]float32, 4*dim), table.Stamp{}, minus{}); err != nil {
				t.Fatal(err)
			}
			for _, k := range [][]uint64{keys, nil, keys[2:3]} {
				out := make([]float32, dim*len(k))
				tab.Gather(k, out)
				want = append(want, out...)
				v.add(tab, k)
			}
			tables = append(tables, tab)
		}
		if settled {
			v.settle()
			for _, tab := range tables {
				if err := tab.Apply(keys, make([]float32, len(keys)*tab.Spec().Dim), table.Stamp{}, minus{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		all := vec.BytesOfFloats(want)
		if v.Len() != len(all) {
			t.Fatalf("%d bytes, want %d", v.Len(), len(all))
		}
		for range 3000 {
			off := r.IntN(len(all))
			p := make([]byte, 1+r.IntN(min(9000, len(all)-off)))
			if err := v.Fill(off, p); err != nil || !bytes.Equal(p, all[off:][:len(p)]) {
				t.Fatalf("settled %v: %d bytes from %d on differ, %v", settled, len(p), off, err)
			}
		}
	}
}

// slow is a call whose body goes in two halves; between them something happens.
type slow struct {
	call
	between func()
}

func (r *slow) ReplyFrom(head []byte, src p2p.Source) error {
	body := make([]byte, src.Len())
	half := len(body) / 2 &^ 63
	if err := src.Fill(0, body[:half]); err != nil {
		return err
	}
	r.between()
	if err := src.Fill(half, body[half:]); err != nil {
		return err
	}
	again := make([]byte, half)
	if err := src.Fill(0, again); err != nil {
		return err
	}
	if !bytes.Equal(again, body[:half]) {
		return p2p.ErrCorrupt
	}
	return r.Reply(head, body)
}

// TestAnAnswerUnderWayDoesNotChange: a push that is applied while a pull's answer is sent is not in it.
func TestAnAnswerUnderWayDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		c.startAll()
		defer c.stopAll()
		c.open(wire.JobParams{World: 1, Sync: wire.ASP, Parts: 1})
		const rows = 20000
		c.ok(&wire.Push{Target: target(0), Step: 0, Parts: 1, Rows: 1}, big(0, rows))
		pull, all := &wire.Pull{Target: target(0), Step: 1, Own: 1}, make([]uint64, rows)
		for i := range all {
			all[i] = uint64(i)
		}
		_, before := c.ok(pull, keys(all...))
		r := &slow{call: call{body: keys(all...)}, between: func() {
			c.ok(&wire.Push{Target: target(0), Step: 1, Parts: 1, Rows: 1}, big(0, rows))
		}}
		c.leader().group.Serve(context.Background(), pull, len(r.body), r)
		if r.answer.Status != wire.OK || r.err != nil || !bytes.Equal(r.reply, before) {
			t.Errorf("%+v, %v: the answer is not what the weights were", r.answer, r.err)
		}
		if _, after := c.ok(&wire.Pull{Target: target(0), Step: 2, Own: 2}, keys(all...)); bytes.Equal(after, before) {
			t.Error("the second push changed nothing")
		}
	})
}
