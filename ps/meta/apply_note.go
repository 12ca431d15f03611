package meta

import "hcclps/ps/wire"

// note replaces the note of a job for who knows the last one, and answers the one that counts.
func (s *state) note(r wire.NoteRequest) result {
	if !wire.ValidName(r.Job) {
		return result{Answer: refuse(wire.Refused, "note of job %.300q: a name is UTF-8 of 1 to %d bytes", r.Job, wire.MaxName)}
	}
	if len(r.Text) > wire.MaxNote {
		return result{Answer: refuse(wire.Refused, "note of job %q: %d bytes, at most %d", r.Job, len(r.Text), wire.MaxNote)}
	}
	now := s.Notes[r.Job]
	if r.Instead == now.Number {
		if s.Notes == nil {
			s.Notes = make(map[string]wire.Note)
		}
		now = wire.Note{Number: now.Number + 1, Text: r.Text}
		s.Notes[r.Job] = now
	}
	return result{Reply: now}
}
