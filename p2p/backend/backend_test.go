package backend_test

import (
	"strings"
	"testing"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
)

var (
	_ link.PairFunc = backend.Pair
	_ link.PairFunc = (*backend.Bulk)(nil).Pair
)

func TestUnknownNetwork(t *testing.T) {
	if _, err := backend.Network("pigeon"); err == nil || !strings.Contains(err.Error(), "pigeon") {
		t.Errorf("unknown network: %v", err)
	}
}
