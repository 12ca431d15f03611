package table

import (
	"math"
	"strings"
	"testing"
)

// TestNoRoomForCapture: an error that comes of a capture, not of the table itself, says so.
func TestNoRoomForCapture(t *testing.T) {
	tab, err := New(Spec{Dim: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	keys, grads := []uint64{7}, make([]float32, 4)
	if err := tab.Apply(keys, grads, Stamp{Step: 1}, set{}); err != nil {
		t.Fatal(err)
	}
	c := tab.Capture()
	defer c.Close()
	c.units.used = math.MaxUint32
	if err := tab.Apply(keys, grads, Stamp{Step: 2}, set{}); err == nil || !strings.Contains(err.Error(), "set a unit aside for a capture: ") {
		t.Errorf("apply: %v", err)
	}
}
