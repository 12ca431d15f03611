package wire_test

import (
	"strings"
	"testing"

	"hcclps/ps/wire"
)

func TestReasonHasNoEmptyDetail(t *testing.T) {
	for want, a := range map[string]wire.Answer{"not leader": {Status: wire.NotLeader}, "busy: full": {Status: wire.Busy, Detail: "full"}} {
		if got := a.Reason(); got != want {
			t.Errorf("reason %q, want %q", got, want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "a": true, "job 1/ä": true, "\xff": false, strings.Repeat("x", 255): true, strings.Repeat("x", 256): false,
	} {
		if got := wire.ValidName(name); got != want {
			t.Errorf("%.20q of %d bytes: %v", name, len(name), got)
		}
	}
}
