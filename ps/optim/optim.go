// Package optim holds the update rules of the servers.
package optim

import "errors"

// Config names a rule and its parameters.
type Config struct {
	Name   string
	Params map[string]float64
}

// State is the replicated part of a rule that belongs to the whole table: plain fields, encoded by the shard.
type State struct {
	Steps uint64
	Pow   [2]float64
}

// Updater changes one row: weights, then slots.
type Updater interface {
	Update(row, grad []float32)
}

// Rule is one optimizer with its parameters.
type Rule interface {
	Config() Config
	Slots() int
	SlotInit() []float32
	Advance(s *State)
	Step(s *State, rate float32) Updater
}

// New makes a rule.
func New(c Config) (Rule, error) { return nil, errors.New("optim: not built yet") }

// Names lists the rules.
func Names() []string { return nil }

// Nearest is the valid name closest to name.
func Nearest(name string, valid []string) string { return "" }
