package dataset

// stream yields the selected rows of one pass over the files, in their order.
type stream struct {
	plan *plan
	from decoder
	row  int // rows of the files so far, selected or not

	bad      int   // malformed rows left out
	firstBad error // the first of them
}

func newStream(p *plan) *stream { return &stream{plan: p, from: p.decoder()} }

// next appends the next selected row to dst, or returns io.EOF. A malformed row
// has a row number too, so that the split does not depend on SkipBad.
func (s *stream) next(dst *rows) error {
	for {
		bad, err := s.from.next(dst)
		if err != nil {
			return err
		}
		selected := s.plan.cfg.Split.takes(s.row)
		s.row++
		switch {
		case bad == nil && selected:
			return nil
		case bad == nil:
			dst.drop()
		case !s.plan.cfg.SkipBad:
			return bad
		default:
			s.countBad(bad)
		}
	}
}

func (s *stream) countBad(err error) {
	s.bad++
	if s.firstBad == nil {
		s.firstBad = err
	}
}
