package dataset

// stream yields the selected rows of one pass over the files, in their order.
type stream struct {
	cfg   Config
	lines *lines
	row   int // rows of the files so far, selected or not

	bad      int   // malformed rows left out
	firstBad error // the first of them
}

func newStream(cfg Config) *stream {
	return &stream{cfg: cfg, lines: newLines(cfg.Paths)}
}

// next appends the next selected row to dst, or returns io.EOF. A malformed row
// has a row number too, so that the split does not depend on SkipBad.
func (s *stream) next(dst *rows) error {
	for {
		line, err := s.lines.next()
		if err != nil {
			return err
		}
		selected := s.cfg.Split.takes(s.row)
		s.row++
		bad := parseLibsvm(line, dst)
		switch {
		case bad == nil && selected:
			return nil
		case bad == nil:
			dst.drop()
		default:
			bad.Path, bad.Line = s.lines.path(), s.lines.line
			if !s.cfg.SkipBad {
				return bad
			}
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
