package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// card is what a worker says of itself when workers meet. As JSON.
type card struct {
	Worker      string `json:"worker"`
	Incarnation uint64 `json:"incarnation,omitempty"` // at the servers
	New         bool   `json:"new,omitempty"`         // it comes in, where others have been before
	Clock       uint64 `json:"clock"`
	Loaded      uint64 `json:"loaded,omitempty"` // the load its parameters come from; 0: the seed
	Schema      uint64 `json:"schema"`
	Free        uint64 `json:"free,omitempty"` // the first step for which it can take a share of the data that is dealt now
	Terms       []term `json:"terms"`
}

// behind says whether a worker has less than another.
func (c *card) behind(o *card) bool {
	return c.Clock < o.Clock || c.Clock == o.Clock && c.Loaded == 0 && o.Loaded != 0
}

// alike says whether two workers have the same parameters.
func (c *card) alike(o *card) bool {
	return c.Clock == o.Clock && c.Loaded == o.Loaded && c.Schema == o.Schema
}

// card is this worker's.
func (r *replica) card() card {
	c := card{
		Worker: r.cfg.Worker, New: r.newcomer(), Clock: r.clock, Loaded: r.loaded, Schema: r.schema, Free: max(r.clock, r.open),
		Terms: slices.Concat(termsOf(&r.cfg), r.terms),
	}
	if r.mine != nil {
		var first uint64
		c.Incarnation, first = r.mine()
		c.Free = max(c.Free, first)
	}
	return c
}

// newcomer says whether this worker came to others, and has not met them yet.
func (r *replica) newcomer() bool { return r.roster == nil && r.peers.world.Joined() > 1 }

// introduce tells everybody everybody's card.
func (r *replica) introduce(ctx context.Context) ([]card, error) {
	b, err := json.Marshal(r.card())
	if err != nil {
		return nil, fmt.Errorf("encode what this worker is: %w", err)
	}
	said, err := r.peers.tell(ctx, b, maxCard)
	if err != nil {
		return nil, err
	}
	cards := make([]card, len(said))
	for rank, b := range said {
		if err := json.Unmarshal(b, &cards[rank]); err != nil {
			return nil, fmt.Errorf("read what rank %d is: %w", rank, err)
		}
	}
	return cards, nil
}

// misfitError is that workers who came in do not fit to those that are there, and this is none of them.
type misfitError struct{ error }

func (e *misfitError) Unwrap() error { return e.error }

// fit compares what all workers must have alike. Who came in and does not fit must go; the others are told by a misfitError.
func (r *replica) fit(cards []card) error {
	for rank := range cards {
		name, theirs, ours := different(cards[rank].Terms, cards[0].Terms)
		if name == "" {
			continue
		}
		err := fmt.Errorf("rank %d (%s) has %s %s, rank 0 (%s) has %s: give all workers the same model and options",
			rank, r.peers.world.Info(rank), name, theirs, r.peers.world.Info(0), ours)
		switch {
		case !cards[rank].New:
			return err
		case rank == r.rank():
			return &apartError{err}
		default:
			return &misfitError{err}
		}
	}
	return nil
}

// dismiss has the servers wait no more for workers that are lost. The lowest rank does it; who has not seen that it was done remembers them.
func (r *replica) dismiss(ctx context.Context, cards []card) error {
	for _, was := range r.roster {
		if !slices.ContainsFunc(cards, func(c card) bool { return c.Worker == was.Worker && c.Incarnation == was.Incarnation }) {
			r.owed = append(r.owed, was)
		}
	}
	r.roster = cards
	if r.rank() == 0 && r.expel != nil {
		for _, was := range r.owed {
			if err := r.expel(ctx, was.Worker, was.Incarnation, "the others went on without it"); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxCard bounds what a worker says of itself.
const maxCard = 1 << 20

// tell gives everybody what everybody says, of any length.
func (p *peers) tell(ctx context.Context, mine []byte, most uint64) ([][]byte, error) {
	size := p.world.Size()
	lengths := make([]byte, 8*size)
	if err := p.gather(ctx, binary.LittleEndian.AppendUint64(nil, uint64(len(mine))), lengths); err != nil {
		return nil, err
	}
	longest := uint64(0)
	for rank := range size {
		longest = max(longest, binary.LittleEndian.Uint64(lengths[8*rank:]))
	}
	if longest > most {
		return nil, fmt.Errorf("a worker has %d bytes to say, at most %d", longest, most)
	}
	part := int(longest+7) &^ 7
	all := make([]byte, part*size)
	if err := p.gather(ctx, append(mine, make([]byte, part-len(mine))...), all); err != nil {
		return nil, err
	}
	said := make([][]byte, size)
	for rank := range said {
		said[rank] = all[part*rank:][:binary.LittleEndian.Uint64(lengths[8*rank:])]
	}
	return said, nil
}

// otherTables finds who begins with other tables than rank 0.
func (r *replica) otherTables(ctx context.Context, cards []card) error {
	var mine []term
	for _, t := range r.tables {
		mine = append(mine, term{fmt.Sprintf("table %q:", t.Spec.Name), describe(t.Spec)})
	}
	b, err := json.Marshal(mine)
	if err != nil {
		return fmt.Errorf("encode tables: %w", err)
	}
	said, err := r.peers.tell(ctx, b, maxCard)
	if err != nil {
		return err
	}
	var first []term
	for rank, b := range said {
		var theirs []term
		if err := json.Unmarshal(b, &theirs); err != nil {
			return fmt.Errorf("read tables of rank %d: %w", rank, err)
		}
		if rank == 0 {
			first = theirs
		}
		if name, a, z := different(theirs, first); name != "" {
			return fmt.Errorf("rank %d (%s) has %s %s, rank 0 (%s) %s: give all workers the same model and options", rank, r.peers.world.Info(rank), name, a, r.peers.world.Info(0), z)
		}
	}
	for rank := range cards {
		if cards[rank].Schema != cards[0].Schema {
			return fmt.Errorf("rank %d has its tables in another order than rank 0: give all workers the same model and options", rank)
		}
	}
	return errors.New("workers stand differently") // cannot be: they differ in nothing else
}
