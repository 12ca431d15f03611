package shm

import "time"

// heat says whether one who posts can be sure that a driver comes: many came without a pause. Then the peer need not be asked for rings between
// them, which would cost both sides more than a small message does. Run looks from time to time whether they have stopped coming.
// The engine has it.
type heat struct {
	hot   bool
	drove int // drivers in a row that found what they waited for
	seen  int // of drove, when Run looked last
}

const (
	hotAfter  = 64
	coolAfter = time.Millisecond
)

// count notes that a driver has left, with what it waited for or without. It says whether Run must know that it is hot now.
func (h *heat) count(well bool) bool {
	if !well {
		h.cool()
		return false
	}
	h.drove++
	if h.hot || h.drove < hotAfter {
		return false
	}
	h.hot, h.seen = true, 0
	return true
}

func (h *heat) cool() { h.hot, h.drove = false, 0 }

// idle notes that Run looks, and says whether it must look again. If it need not, then one who leaves the engine asks for rings.
func (h *heat) idle() bool {
	if h.hot && h.seen == h.drove {
		h.cool()
	}
	h.seen = h.drove
	return h.hot
}
