package rafttransport

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
)

// TestRecipientOfEachRequest sends requests to another id, and to a group that is not there, on connections whose hello was right.
func TestRecipientOfEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{
			Network: inproc.NewNetwork(), Self: "follower",
			Resolve: func(raft.ServerAddress) (string, error) { return "", nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		g := m.Group(4, noLog{})
		for name, s := range samples() {
			for _, to := range []string{"somebody", "follower"} {
				purpose := link.RaftControl
				switch name {
				case "append":
					purpose = link.RaftBulk
				case "install":
					purpose = link.RaftSnapshot
				}
				group, want := uint32(4), statusRecipient
				if to == "follower" {
					group, want = 44, statusRefused
				}
				b, err := appendHead(beginFrame(nil, s.kind, 9, group), to, s.cmd, crcOf)
				if err == nil {
					err = sealFrame(b)
				}
				if err != nil {
					t.Fatal(err)
				}
				mine, theirs := inproc.Pipe(0)
				m.Accept(theirs, link.Hello{From: "leader", To: "follower", Purpose: purpose})
				if _, err := mine.Write(append(b, "hello"...)); err != nil {
					t.Fatal(err)
				}
				f, err := newFrameReader(mine, maxControlHead).next()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				r, err := decodeReply(f)
				if err != nil || f.id != 9 || f.group != group || f.kind != s.kind+answered || r.status != want || want == statusRecipient && !strings.Contains(r.text, "somebody") {
					t.Errorf("%s to %s: %+v, %v", name, to, r, err)
				}
				_ = mine.Close()
			}
		}
		select {
		case rpc := <-g.Consumer():
			t.Errorf("raft got %+v", rpc.Command)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
