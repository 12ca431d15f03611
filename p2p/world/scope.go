package world

import (
	"context"
	"fmt"
	"time"
)

// maxScopes is the most scopes that a rank keeps.
const maxScopes = 1 << 12

// Scope is what some ranks tell each other about something that is theirs alone, such as a sub-group: it has positions and a verdict of its own, and its
// failure is not the World's. That of the World is its too. Its methods may be called by any number of goroutines.
type Scope struct {
	world *World
	name  string
	fate  *fate
	place place
}

// Scope is the scope of a name, at most 255 bytes of it; it is there when anybody speaks of it.
func (w *World) Scope(name string) *Scope {
	name = name[:min(len(name), maxName)]
	w.mu.Lock()
	s := w.scopes[name]
	if s == nil {
		s = &Scope{world: w, name: name, fate: newFate()}
		w.scopes[name] = s
	}
	w.mu.Unlock()
	if v := w.fate.known(); v != nil {
		s.fate.judge(v)
	}
	return s
}

// Report is that of World, for this scope.
func (s *Scope) Report(position []byte) { s.place.set(position) }

// Positions is that of World, for this scope: by rank of the World.
func (s *Scope) Positions(ctx context.Context) ([][]byte, error) {
	all, err := s.world.ask(ctx, s.name)
	if err != nil {
		return nil, fmt.Errorf("ask for positions in %q: %w", s.name, err)
	}
	return positionsOf(all), nil
}

// Fail tells all ranks that this one cannot go on in this scope. The first reason of all becomes its verdict.
func (s *Scope) Fail(reason string) {
	w := s.world
	if !w.reachable() {
		s.judge(w.rank, reason)
		return
	}
	w.link.post(frame{kind: kindFailed, rank: w.rank, scope: s.name, text: reason})
}

// Failed is closed when the scope has failed, or the World.
func (s *Scope) Failed() <-chan struct{} { return s.fate.failed }

// Verdict is that of World, for this scope.
func (s *Scope) Verdict() (rank int, reason string) { return s.fate.verdictOf() }

// Health is that of World, with the positions and the verdict of this scope.
func (s *Scope) Health(ctx context.Context) (silent []time.Duration, positions [][]byte, reasons []string, err error) {
	return s.world.health(ctx, s.name, s.fate)
}

func (s *Scope) judge(rank int, reason string) {
	v := s.world.blame(rank, reason)
	if s.fate.judge(v) {
		s.world.cfg.Logger.Warn("a part of the world failed", "scope", s.name, "rank", v.Rank, "info", v.Info, "reason", v.Reason)
	}
}

// told takes the verdict of a scope.
func (w *World) told(f frame) {
	w.mu.Lock()
	full := w.scopes[f.scope] == nil && len(w.scopes) >= maxScopes
	w.mu.Unlock()
	if !full {
		w.Scope(f.scope).judge(f.rank, f.text)
	}
}

// positionIn is where this rank is in a scope, "" being the World.
func (w *World) positionIn(scope string) []byte {
	if scope == "" {
		return w.place.get()
	}
	w.mu.Lock()
	s := w.scopes[scope]
	w.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.place.get()
}

// condemn ends all scopes by the verdict of the World.
func (w *World) condemn(v *RankError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.scopes {
		s.fate.judge(v)
	}
}
