package meta

import (
	"errors"
	"fmt"
	"testing"

	"hcclps/ps/wire"
)

// An entry of a newer or older program is a fault: skipped, what it holds would be lost without a word.
func TestEntryOfAnotherVersion(t *testing.T) {
	for _, version := range []int{entryVersion - 1, entryVersion + 1} {
		r := newState().apply(fmt.Appendf(nil, `{"version":%d,"kind":%q,"body":{}}`, version, kindLayout))
		if !errors.Is(r.Fault, wire.ErrEntryVersion) {
			t.Errorf("version %d: %+v", version, r)
		}
	}
}
