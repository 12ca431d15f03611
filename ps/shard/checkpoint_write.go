package shard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps/raftgroup"
	"hcclps/ps/table"
)

// save writes parts, one after the other, until ctx ends.
func (g *Group) save(ctx context.Context) {
	var before *part
	for {
		select {
		case p := <-g.saving.work:
			if before != nil {
				g.clear(before) // the meta group is past it
			}
			before = p
			g.write(ctx, p)
		case <-ctx.Done():
			g.leave()
			return
		}
	}
}

// leave gives up a part that is captured and not begun.
func (g *Group) leave() {
	select {
	case p := <-g.saving.work:
		p.fail(errors.New("the server is stopping"))
		p.pages.Release()
		close(p.ended)
	default:
	}
}

// clear takes back what is left of a part.
func (g *Group) clear(p *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writer == nil {
		return
	}
	if err := p.writer.Cancel(); err != nil {
		g.cfg.Logger.Warn("files of a checkpoint not removed", "group", g.cfg.Group, "checkpoint", p.cut.ID, "err", err)
	}
	p.writer = nil
}

// write brings a part into the folder. A part that is not done is taken back;
// one that is may be committed any moment.
func (g *Group) write(ctx context.Context, p *part) {
	defer g.log.Resume()
	defer close(p.ended)
	defer p.pages.Release()
	began := time.Now()
	inner, cancel, err := p.begin(ctx)
	defer cancel(nil)
	if err == nil {
		err = g.writePart(inner, p)
	}
	if err != nil {
		p.fail(cmp.Or(context.Cause(inner), err))
		if !errors.Is(context.Cause(ctx), raftgroup.ErrCrash) {
			g.clear(p)
		}
		g.cfg.Logger.Warn("part of a checkpoint not written", "group", g.cfg.Group, "job", p.head.Job.Name, "checkpoint", p.cut.ID, "err", err)
		return
	}
	g.cfg.Logger.Info("part of a checkpoint written", "group", g.cfg.Group, "job", p.head.Job.Name, "checkpoint", p.cut.ID,
		"step", p.head.Job.Clock, "bytes", p.state.Bytes, "new", p.state.New, "took", time.Since(began))
}

func (g *Group) writePart(ctx context.Context, p *part) error {
	l := g.cfg.Layout()
	w, err := g.cfg.Folder.Begin(ctx, checkpoint.Spec{
		ID: p.cut.ID, Job: p.head.Job.Name, Group: g.cfg.Group, Shards: len(l.Shards), HashSeed: l.HashSeed,
		Tables: p.head.tables(), Base: p.cut.Base, Progress: p.progress,
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.writer = w
	p.mu.Unlock()
	pace := pace{rate: g.cfg.Rate, hurry: g.hurries}
	for _, t := range p.pages.tables {
		from, known := p.since[t.slot]
		err := t.pages.Pages(!known, from, func(id table.PageID, data []byte) error {
			at := checkpoint.PageID{Table: t.id, Partition: id.Partition, Page: id.Page}
			if len(data) <= 2 { // its rows are gone
				return w.Drop(at)
			}
			if err := pace.wait(ctx, len(data)); err != nil {
				return err
			}
			return w.WritePage(ctx, checkpoint.Page{PageID: at, Data: data})
		}, p.pages.lock)
		if err != nil {
			return err
		}
	}
	p.letGo()
	g.log.Resume()
	if p.since == nil {
		if err := w.DropRest(); err != nil {
			return err
		}
	}
	b, err := json.Marshal(p.head)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if err := w.WriteBlob(ctx, HeadBlob, bytes.NewReader(b)); err != nil {
		return err
	}
	made, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	return p.finish(made)
}

// hurries says that a snapshot is due, or an entry is short of room for copies, which wait for the pages: they are read as fast as they can be.
func (g *Group) hurries() bool {
	if g.short.Load() {
		return true
	}
	if g.scratch {
		return false
	}
	used, budget := g.cfg.Log.Bytes()
	return used > budget/2
}
