package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"hcclps/ps/wire"
)

// What each worker gives to a checkpoint beside parameters, the blob worker/RANK, and worker/RANK/1, worker/RANK/2, ... where it came in pieces, little endian:
//
//	 0   8  "hclpwork"
//	 8   4  version 1
//	12   4  bytes of the head
//	16   8  bytes of the residuals
//	24   8  bytes of the rows
//	32      the head, a workerHead as JSON; residuals, what the codecs of this worker hold back; rows, of hybrid, those of the tables of
//	        workerHead.Dense: for each table u64 bytes, then rows as a server answers a scan
//	..   4  CRC-32C of all before
const (
	workerMagic   = "hclpwork"
	workerVersion = 1
	workerFixed   = 32
	workerHeadMax = 64 << 20
)

// workerName is the blob of a rank.
func workerName(rank int) string { return fmt.Sprintf("worker/%d", rank) }

// workerHead is the readable part.
type workerHead struct {
	Worker string  `json:"worker"`
	Rank   int     `json:"rank"`
	World  int     `json:"world"`
	Step   uint64  `json:"step"`
	Cursor []byte  `json:"cursor"`
	About  About   `json:"about"`           // of the model
	Dense  *shared `json:"dense,omitempty"` // of hybrid's rank 0
}

// workerState is the whole.
type workerState struct {
	workerHead
	residuals []byte
	rows      []byte
}

var errWorkerState = errors.New("state of a worker is damaged")

func (s *workerState) encode() ([]byte, error) {
	segments, err := s.segments([][]byte{s.residuals})
	return bytes.Join(segments, nil), err
}

// segments is encode in pieces that are to be put together, the residuals being such pieces themselves.
func (s *workerState) segments(residuals [][]byte) ([][]byte, error) {
	head, err := json.Marshal(&s.workerHead)
	if err != nil {
		return nil, fmt.Errorf("encode state of worker %s: %w", s.Worker, err)
	}
	le := binary.LittleEndian
	b := append(make([]byte, 0, workerFixed+len(head)), workerMagic...)
	b = le.AppendUint32(b, workerVersion)
	b = le.AppendUint32(b, uint32(len(head)))
	b = le.AppendUint64(b, uint64(lengthOf(residuals)))
	b = le.AppendUint64(b, uint64(len(s.rows)))
	out := append([][]byte{append(b, head...)}, residuals...)
	out = append(out, s.rows)
	return append(out, le.AppendUint32(nil, checksum(out))), nil
}

// decodeWorkerState reads one; what it returns aliases b.
func decodeWorkerState(b []byte) (*workerState, error) {
	le := binary.LittleEndian
	damaged := func(format string, args ...any) (*workerState, error) {
		return nil, fmt.Errorf("%w: %s", errWorkerState, fmt.Sprintf(format, args...))
	}
	if len(b) < workerFixed+4 || string(b[:8]) != workerMagic {
		return damaged("%d bytes, which do not begin as one", len(b))
	}
	if v := le.Uint32(b[8:]); v > workerVersion {
		return nil, fmt.Errorf("state of a worker has version %d, this program reads up to %d: %w", v, workerVersion, ErrModelVersion)
	}
	body := b[:len(b)-4]
	if sum := crc32.Checksum(body, castagnoli); sum != le.Uint32(b[len(body):]) {
		return damaged("CRC-32C is %08x, it says %08x", sum, le.Uint32(b[len(body):]))
	}
	head, residuals, rows := uint64(le.Uint32(b[12:])), le.Uint64(b[16:]), le.Uint64(b[24:])
	rest := body[workerFixed:]
	n := uint64(len(rest))
	if head > n || residuals > n-head || rows != n-head-residuals || head > workerHeadMax {
		return damaged("parts of %d, %d and %d bytes in %d", head, residuals, rows, n)
	}
	s := &workerState{residuals: rest[head:][:residuals], rows: rest[head+residuals:]}
	if err := json.Unmarshal(rest[:head], &s.workerHead); err != nil {
		return damaged("head: %v", err)
	}
	if s.World < 1 || s.Rank < 0 || s.Rank >= s.World || len(s.Cursor) > wire.MaxCursor {
		return damaged("rank %d of %d, cursor of %d bytes", s.Rank, s.World, len(s.Cursor))
	}
	return s, nil
}

// eachTable visits the tables of hybrid with their rows.
func (s *workerState) eachTable(visit func(t *sharedRule, rows []wire.Row) error) error {
	b := s.rows
	for i := range s.Dense.Tables {
		t := &s.Dense.Tables[i]
		if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
			return fmt.Errorf("rows of table %q: %w: they end early", t.Spec.Name, errWorkerState)
		}
		n := binary.LittleEndian.Uint64(b)
		rows, err := wire.DecodeRows(b[8:][:n])
		if err != nil {
			return fmt.Errorf("rows of table %q: %w", t.Spec.Name, err)
		}
		if err := visit(t, rows); err != nil {
			return err
		}
		b = b[8+n:]
	}
	return nil
}
