package shard

import (
	"errors"
	"testing"

	"hcclps/ps/wire"
)

// An entry of a newer or older program ends the replica: skipped, what it holds would be lost without a word.
func TestEntryOfAnotherVersion(t *testing.T) {
	for _, version := range []byte{wire.EntryVersion - 1, wire.EntryVersion + 1} {
		s := NewState(StateConfig{})
		entry := wire.AppendEntry(nil, wire.Entry{Message: &wire.Fence{}})
		entry[0] = version
		answers, err := s.Apply(entry, 7, 1)
		if !errors.Is(err, wire.ErrEntryVersion) || answers != nil {
			t.Errorf("version %d: %v, %v", version, answers, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
