package worker

import (
	"context"
	"encoding/binary"
	"fmt"

	"hcclps/p2p"
)

// partPiece is how many bytes of a part go at once at most.
const partPiece = 1 << 20

// collect brings every rank's part, of any length, to root; the others get nil. All ranks call it.
func (p *peers) collect(ctx context.Context, root int, mine []byte) ([][]byte, error) {
	n := p.world.Size()
	own, table := make([]byte, 8), make([]byte, 8*n)
	binary.LittleEndian.PutUint64(own, uint64(len(mine)))
	if err := p.gather(ctx, own, table); err != nil {
		return nil, err
	}
	sizes, piece, longest, err := partSizes(table)
	if err != nil {
		return nil, err
	}
	out, in := make([]byte, piece), []byte(nil)
	var parts [][]byte
	if p.world.Rank() == root {
		in, parts = make([]byte, n*piece), make([][]byte, n)
	}
	for at := 0; at < longest; at += piece {
		copy(out, mine[min(at, len(mine)):])
		if err := p.group.Gather(p2p.Bytes(out), p2p.Bytes(in), p2p.Uint8, root).Wait(ctx); err != nil {
			return nil, err
		}
		for rank := range parts {
			parts[rank] = append(parts[rank], in[rank*piece:][:min(sizes[rank]-len(parts[rank]), piece)]...)
		}
	}
	return parts, nil
}

// deal gives every rank its part of what root has, one for each. All ranks call it.
func (p *peers) deal(ctx context.Context, root int, parts [][]byte) ([]byte, error) {
	n := p.world.Size()
	table := make([]byte, 8*n)
	for rank, part := range parts {
		binary.LittleEndian.PutUint64(table[8*rank:], uint64(len(part)))
	}
	if err := p.group.Broadcast(p2p.Bytes(table), p2p.Uint8, root).Wait(ctx); err != nil {
		return nil, err
	}
	sizes, piece, longest, err := partSizes(table)
	if err != nil {
		return nil, err
	}
	in, out := make([]byte, piece), []byte(nil)
	if p.world.Rank() == root {
		out = make([]byte, n*piece)
	}
	var mine []byte
	for at := 0; at < longest; at += piece {
		for rank, part := range parts {
			copy(out[rank*piece:][:piece], part[min(at, len(part)):])
		}
		if err := p.group.Scatter(p2p.Bytes(out), p2p.Bytes(in), p2p.Uint8, root).Wait(ctx); err != nil {
			return nil, err
		}
		mine = append(mine, in[:min(sizes[p.world.Rank()]-len(mine), piece)]...)
	}
	return mine, nil
}

// partSizes reads a table of lengths, a u64 each, and says in which pieces the longest goes.
func partSizes(table []byte) (sizes []int, piece, longest int, err error) {
	for ; len(table) > 0; table = table[8:] {
		n := binary.LittleEndian.Uint64(table)
		if n > maxBody {
			return nil, 0, 0, fmt.Errorf("a part of %d bytes, at most %d", n, maxBody)
		}
		sizes = append(sizes, int(n))
		longest = max(longest, int(n))
	}
	return sizes, min(longest, partPiece), longest, nil
}
