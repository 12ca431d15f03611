package p2p

// Mode is how a message of some size is moved. One that fits into a chunk goes in one, whatever its mode.
type Mode uint8

// The modes, by rising size.
const (
	// Pipelined is a window of chunks in flight.
	Pipelined Mode = iota
	// Wide is Pipelined with the largest window.
	Wide
)

// String is the name in logs.
func (m Mode) String() string {
	if m == Wide {
		return "wide"
	}
	return "pipelined"
}

// ModePolicy chooses the mode of a message. The zero value has the default.
type ModePolicy struct {
	Wide int // bytes above which the window is the largest, default 100 MiB
}

// Mode is the mode of a message of so many bytes.
func (p ModePolicy) Mode(bytes int) Mode {
	if bytes > orDefault(p.Wide, 100<<20) {
		return Wide
	}
	return Pipelined
}

// orDefault is v, or def when v is zero.
func orDefault[T int | float64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
