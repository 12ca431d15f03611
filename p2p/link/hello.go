package link

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Version is the version of the wire format of this package.
const Version = 1

// Purpose says what a connection is for.
type Purpose uint8

// The purposes. The values are on the wire.
const (
	Control Purpose = iota + 1
	Bulk
	RaftControl
	RaftBulk
	RaftSnapshot
)

// String is the name in logs.
func (p Purpose) String() string {
	switch p {
	case Control:
		return "control"
	case Bulk:
		return "bulk"
	case RaftControl:
		return "raft control"
	case RaftBulk:
		return "raft bulk"
	case RaftSnapshot:
		return "raft snapshot"
	default:
		return fmt.Sprintf("purpose(%d)", uint8(p))
	}
}

// Hello is the first message on every connection, and what each side knows of the other from then on.
type Hello struct {
	Version uint16  // 0 means Version
	Cluster string  // name of the cluster
	From    string  // id of the sender
	To      string  // id of the server that is meant, "" when the dialler does not know it yet
	Purpose Purpose // what the connection is for
	Pair    uint64  // ties a bulk connection to its control connection
	Info    string  // free text for people: host, process
}

// Identity is what an acceptor is.
type Identity struct {
	Cluster string
	ID      string
	Info    string
}

// SendHello introduces the dialler and waits for the acceptor's verdict, at most 3 s. peer is the acceptor. A refusal is one of
// ErrVersion, ErrWrongCluster, ErrWrongRecipient, ErrMalformed and shows both sides' values. The caller closes conn on error.
func SendHello(ctx context.Context, conn net.Conn, h Hello) (peer Hello, err error) {
	return Hello{}, errors.New("not yet")
}

// AcceptHello reads the dialler's hello, at most 3 s and 4 KiB, judges it and sends the verdict. On error the dialler has been told
// if that was possible; the caller closes conn.
func AcceptHello(ctx context.Context, conn net.Conn, self Identity) (Hello, error) {
	return Hello{}, errors.New("not yet")
}
