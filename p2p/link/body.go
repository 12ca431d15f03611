package link

import "hcclps/p2p"

// bodyOf is the body of a call or reply, given as a source or in pieces. What is small enough to be inline is made at once.
func bodyOf(src p2p.Source, pieces [][]byte) (large p2p.Source, small [][]byte, total int, err error) {
	if src == nil {
		for _, piece := range pieces {
			total += len(piece)
		}
		return nil, pieces, total, nil
	}
	total = src.Len()
	if total > MaxInline {
		return src, nil, total, nil
	}
	buf := make([]byte, total)
	if total > 0 {
		err = src.Fill(0, buf)
	}
	return nil, [][]byte{buf}, total, err
}

// send offers a large body.
func send(moves *p2p.Transfer, id uint64, src p2p.Source, pieces [][]byte) *p2p.Outgoing {
	if src != nil {
		return moves.SendFrom(id, src)
	}
	return moves.Send(id, pieces...)
}
