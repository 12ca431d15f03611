package worker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"hcclps/internal/vec"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// scanRows is how many rows one scan of a shard asks for, each of which looks at
// every key there; a server answers with less where they are long.
const scanRows = 1 << 16

// Digest waits until every worker has finished, and is the SHA-256 over all
// tables by name, their rows by ascending key, and the bits of weights and
// optimizer slots: two jobs have the same digest when they hold the same
// parameters.
func (c *Client) Digest(ctx context.Context) (string, error) {
	if err := c.PullFinal(ctx); err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	h := sha256.New()
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(c.tables)) {
		fmt.Fprintf(h, "%s\n", name)
		err := c.Scan(ctx, c.tables[name], func(r wire.Row) error {
			b = binary.LittleEndian.AppendUint64(b[:0], r.Key)
			h.Write(b)
			h.Write(vec.BytesOfFloats(r.Values))
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("digest: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Scan visits the rows of a table that were ever pushed to, by ascending key.
func (c *Client) Scan(ctx context.Context, t Table, visit func(wire.Row) error) error {
	if err := c.store.scan(ctx, t.spec(), visit); err != nil {
		return fmt.Errorf("scan table %q: %w", t.spec().Name, err)
	}
	return nil
}

// scan implements store.
func (s *servers) scan(ctx context.Context, t *wire.Table, visit func(wire.Row) error) error {
	shards := make([]scan, len(s.session.shards))
	for i := range shards {
		shards[i] = scan{s: s, shard: i, table: t}
	}
	for {
		least := -1
		for i := range shards {
			ok, err := shards[i].fill(ctx)
			if err != nil {
				return err
			}
			if ok && (least < 0 || shards[i].rows[0].Key < shards[least].rows[0].Key) {
				least = i
			}
		}
		if least < 0 {
			return nil
		}
		if err := visit(shards[least].rows[0]); err != nil {
			return err
		}
		shards[least].rows = shards[least].rows[1:]
	}
}

// scan reads one shard's rows of a table, a page at a time.
type scan struct {
	s     *servers
	shard int
	table *wire.Table
	rows  []wire.Row
	after uint64
	begun bool
	over  bool
}

func (s *scan) fill(ctx context.Context) (bool, error) {
	if len(s.rows) > 0 || s.over {
		return len(s.rows) > 0, nil
	}
	m := wire.Scan{Target: s.s.target(s.shard), Table: s.table.ID, After: s.after, First: !s.begun, Limit: scanRows}
	_, body, err := s.s.do(ctx, request{op: "scan", group: layout.GroupOf(s.shard), head: wire.Append(nil, &m), prio: link.Background})
	if err != nil {
		return false, err
	}
	if s.rows, err = wire.DecodeRows(body); err != nil {
		return false, err
	}
	if len(s.rows) == 0 {
		s.over = true
		return false, nil
	}
	s.begun, s.after = true, s.rows[len(s.rows)-1].Key
	return true, nil
}
