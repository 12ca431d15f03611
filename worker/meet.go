package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"hcclps/internal/vec"
	"hcclps/p2p"
	"hcclps/ps/optim"
	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// meet makes the parameters of all workers the same, before the first step of an epoch: those of the lowest rank that has most steps, or else has
// loaded a model, go to all that have others. Then their digests are compared.
func (r *replica) meet(ctx context.Context) error {
	r.codec = 0
	cards, err := r.introduce(ctx)
	if err != nil {
		return err
	}
	err = r.fit(cards)
	if derr := r.dismiss(ctx, cards); err == nil {
		err = derr
	}
	if err != nil {
		return err
	}
	mine := &cards[r.rank()]
	source, alike, from := 0, true, uint64(0)
	for rank := range cards {
		if cards[source].behind(&cards[rank]) {
			source = rank
		}
		alike = alike && cards[rank].alike(&cards[0])
		from = max(from, cards[rank].Free)
	}
	best := &cards[source]
	if best.Clock == 0 && best.Loaded == 0 && !alike {
		return r.otherTables(ctx, cards)
	}
	if !alike {
		if err := r.share(ctx, source, mine.alike(best)); err != nil {
			return err
		}
	}
	if !alike || best.Clock > 0 {
		if err := r.compare(ctx); err != nil {
			return err
		}
	}
	r.met, r.owed, r.from = true, nil, from
	r.log.Info("workers have met", "rank", r.rank(), "workers", len(cards), "epoch", r.peers.world.Epoch(), "step", r.clock, "parameters_of", source)
	return nil
}

// shared is all that a worker needs beside rows. As JSON.
type shared struct {
	Clock    uint64          `json:"clock"`
	Loaded   uint64          `json:"loaded"`
	Applied  uint64          `json:"applied"`
	Stop     uint64          `json:"stop"`
	Rebuilds int             `json:"rebuilds"`
	Cursor   []byte          `json:"cursor"`
	Rates    []wire.RateFrom `json:"rates"`
	Order    []uint32        `json:"order"`
	LastID   uint32          `json:"last_id"`
	Cuts     []uint64        `json:"cuts,omitempty"`
	Tables   []sharedRule    `json:"tables"`
}

type sharedRule struct {
	Spec wire.Table  `json:"spec"`
	Opt  optim.State `json:"opt"`
	Kept update.Kept `json:"kept,omitzero"`
}

// pageSize is about how many bytes of rows are sent at once.
const pageSize = 4 << 20

// share gives what source has to all others. One that has the same already only takes part.
func (r *replica) share(ctx context.Context, source int, has bool) error {
	var b []byte
	if r.rank() == source {
		var err error
		if b, err = json.Marshal(r.shared()); err != nil {
			return fmt.Errorf("encode parameters: %w", err)
		}
	}
	b, err := r.peers.broadcast(ctx, source, b)
	if err != nil {
		return fmt.Errorf("get parameters of rank %d: %w", source, err)
	}
	var s shared // not what was encoded: its slices are in use
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read parameters of rank %d: %w", source, err)
	}
	var unfit error
	if !has {
		unfit = r.become(&s)
	}
	if err := r.peers.allWell(ctx, unfit); err != nil {
		return fmt.Errorf("take the parameters of rank %d: %w", source, err)
	}
	for _, t := range r.stores() {
		if err := r.shareRows(ctx, source, t.rows, has); err != nil {
			return fmt.Errorf("share rows of table %q of rank %d: %w", t.name, source, err)
		}
	}
	return nil
}

func (r *replica) shared() shared {
	s := shared{
		Clock: r.clock, Loaded: r.loaded, Applied: r.applied, Stop: r.stop, Rebuilds: r.rebuilds,
		Cursor: r.cursor, Rates: r.rates, Order: r.order, LastID: r.lastID, Cuts: r.cuts,
	}
	for _, t := range r.tables {
		s.Tables = append(s.Tables, sharedRule{t.Spec, t.Opt, t.Kept})
	}
	return s
}

// become drops all rows, and takes over the rest.
func (r *replica) become(s *shared) error {
	fresh := make([]*held, 0, len(s.Tables))
	taken := false
	defer func() {
		for _, t := range fresh {
			if !taken {
				_ = t.Close() // what went wrong before says more
			}
		}
	}()
	known := 0
	for _, t := range s.Tables {
		h, err := r.newHeld(t.Spec)
		if err != nil {
			return err
		}
		fresh = append(fresh, h)
		if err := h.Restore(t.Opt, t.Kept); err != nil {
			return err
		}
		for _, mine := range r.tables {
			if mine.Spec.Name != t.Spec.Name {
				continue
			}
			known++
			a, b := mine.Spec, t.Spec
			a.ID, a.Seed = b.ID, b.Seed // a loaded table has those of where it comes from
			if !a.Same(&b) {
				return fmt.Errorf("table %q is %s here, and %s there: give all workers the same model and options", t.Spec.Name, describe(mine.Spec), describe(t.Spec))
			}
		}
	}
	if known < len(r.tables) {
		return fmt.Errorf("%d tables here, of which %d are there: give all workers the same model", len(r.tables), known)
	}
	r.mu.Lock()
	old := r.tables
	r.hold(fresh)
	taken = true
	r.lastID = s.LastID
	r.mu.Unlock()
	if err := r.drop(old); err != nil {
		return err
	}
	r.loaded, r.applied, r.stop, r.rebuilds, r.cursor, r.rates, r.order = s.Loaded, s.Applied, s.Stop, max(r.rebuilds, s.Rebuilds), s.Cursor, s.Rates, s.Order
	r.cuts = s.Cuts
	for _, t := range fresh {
		r.adopt(t.Spec)
	}
	r.moveTo(s.Clock)
	return nil
}

// drop closes tables that are in use no more, but perhaps for a checkpoint, which fails then.
func (r *replica) drop(old []*held) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range old {
		if err := t.Close(); err != nil {
			return err
		}
	}
	if r.saver != nil {
		r.saver.others.Store(true)
	}
	return nil
}

// shareRows sends the rows of a table, page by page, and an empty page at the end.
func (r *replica) shareRows(ctx context.Context, source int, t *table.Table, has bool) error {
	if r.rank() == source {
		return r.sendRows(ctx, source, t)
	}
	for {
		b, err := r.peers.broadcast(ctx, source, nil)
		if err != nil || len(b) == 0 {
			return err
		}
		if has {
			continue
		}
		in, err := wire.DecodeRows(b)
		if err != nil {
			return err
		}
		if err := t.Put(rowsOf(in)); err != nil {
			return err
		}
	}
}

// rowsOf are rows as a table takes them.
func rowsOf(in []wire.Row) []table.Row {
	rows := make([]table.Row, len(in))
	for i, v := range in {
		rows[i] = table.Row{Key: v.Key, Step: v.Step, Sightings: v.Sightings, Writer: v.Writer, Values: v.Values}
	}
	return rows
}

func (r *replica) sendRows(ctx context.Context, source int, t *table.Table) error {
	var page []byte
	send := func() error {
		_, err := r.peers.broadcast(ctx, source, page)
		page = page[:0]
		return err
	}
	err := r.scanRows(ctx, t, func(row wire.Row) error {
		if page = wire.AppendRow(page, row); len(page) < pageSize {
			return nil
		}
		return send()
	})
	if err == nil && len(page) > 0 {
		err = send()
	}
	if err == nil {
		err = send() // the empty one
	}
	return err
}

// allWell tells everybody whether somebody has failed. Who has not is told by a misfitError.
func (p *peers) allWell(ctx context.Context, mine error) error {
	out, in := []byte{0}, make([]byte, p.world.Size())
	if mine != nil {
		out[0] = 1
	}
	if err := p.gather(ctx, out, in); err != nil || mine != nil {
		return errors.Join(mine, err)
	}
	if rank := slices.Index(in, 1); rank >= 0 {
		return &misfitError{fmt.Errorf("rank %d (%s) cannot, and says why", rank, p.world.Info(rank))}
	}
	return nil
}

// broadcast gives everybody what root has, of any length.
func (p *peers) broadcast(ctx context.Context, root int, b []byte) ([]byte, error) {
	n := make([]byte, 8)
	binary.LittleEndian.PutUint64(n, uint64(len(b)))
	if err := p.group.Broadcast(p2p.Bytes(n), p2p.Uint8, root).Wait(ctx); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint64(n)
	if size > maxBody {
		return nil, fmt.Errorf("%d bytes, at most %d", size, maxBody)
	}
	if p.world.Rank() != root {
		b = make([]byte, size)
	}
	if size == 0 {
		return b, nil
	}
	return b, p.group.Broadcast(p2p.Bytes(b), p2p.Uint8, root).Wait(ctx)
}

// compare checks that all workers have the same bits.
func (r *replica) compare(ctx context.Context) error {
	mine, err := r.digest(ctx)
	if err != nil {
		return err
	}
	out := make([]byte, 8)
	binary.LittleEndian.PutUint64(out, mine)
	in := make([]byte, 8*r.peers.world.Size())
	if err := r.peers.gather(ctx, out, in); err != nil {
		return err
	}
	for rank := range r.peers.world.Size() {
		if d := binary.LittleEndian.Uint64(in[8*rank:]); d != binary.LittleEndian.Uint64(in) {
			return fmt.Errorf("rank %d has parameters of digest %016x after step %d, rank 0 %016x: workers have come apart", rank, d, r.clock, binary.LittleEndian.Uint64(in))
		}
	}
	return nil
}

// digest is a hash of all parameters, optimizer slots and states.
func (r *replica) digest(ctx context.Context) (uint64, error) {
	h := xxhash.New()
	var b []byte
	for _, t := range r.tables {
		b = wire.AppendRule(append(b[:0], t.Spec.Name...), wire.RuleState(t.Opt))
		_, _ = h.Write(b) // a hash takes everything
		for _, rows := range t.stores() {
			err := r.scanRows(ctx, rows.rows, func(row wire.Row) error {
				b = binary.LittleEndian.AppendUint64(b[:0], row.Key)
				_, _ = h.Write(b)
				_, _ = h.Write(vec.BytesOfFloats(row.Values))
				return nil
			})
			if err != nil {
				return 0, err
			}
		}
	}
	return h.Sum64(), nil
}
