package hccl

import (
	"encoding/json"
	"fmt"
)

// protocolVersion is that of the whole exchange between two sides.
const protocolVersion = 1

// hello is what the two sides tell each other first.
type hello struct {
	Protocol  int    `json:"protocol"`
	Rank      int    `json:"rank"`
	Host      string `json:"host"`     // identity of the host
	Physical  int    `json:"physical"` // number of the device on the host
	Chip      string `json:"chip"`
	Version   string `json:"version"` // of the runtime
	Simulator string `json:"simulator,omitempty"`
	BufferMiB int    `json:"buffer_mib"`
	Piece     int    `json:"piece"`
	ExecSecs  int    `json:"exec_secs"`
}

// key orders the devices of all hosts.
func (h hello) key() string { return fmt.Sprintf("%s/%06d", h.Host, h.Physical) }

func (h hello) encode() ([]byte, error) { return json.Marshal(h) }

// Bounds of what a peer may ask for.
const (
	maxBufferMiB = 4096
	minPiece     = 4096
	maxPiece     = 64 << 20
)

func parseHello(b []byte) (hello, error) {
	var h hello
	if err := json.Unmarshal(b, &h); err != nil {
		return hello{}, fmt.Errorf("read hello: %w: %w", errFrame, err)
	}
	switch {
	case h.Protocol != protocolVersion:
		return h, nil // its other fields may mean something else; agree refuses it
	case h.Rank < 0 || h.Rank > 1, h.Host == "", h.Physical < 0, h.BufferMiB < 1 || h.BufferMiB > maxBufferMiB,
		h.Piece < minPiece || h.Piece > maxPiece || h.Piece%64 != 0, h.ExecSecs < 0:
		return hello{}, fmt.Errorf("read hello: %w: a field is out of range: %s", errFrame, b)
	}
	return h, nil
}
