package worker

import (
	"context"
	"net"
	"strings"

	"hcclps/ps/wire"
)

// notes is the note of a job at the servers, by which its workers find each other where nobody was told an address. It is a world.Register.
type notes struct {
	cluster *cluster
	job     string
}

// Swap implements world.Register.
func (n notes) Swap(ctx context.Context, instead uint64, text string) (uint64, string, error) {
	var now wire.Note
	err := n.cluster.control(ctx, "find the other workers", wire.KindNote, wire.NoteRequest{Job: n.job, Instead: instead, Text: text}, &now)
	return now.Number, now.Text, err
}

// facing is an address of this host by which processes that reach the same servers reach this one, with any port.
func facing(ctx context.Context, servers []string) string {
	var dialer net.Dialer
	for _, s := range servers {
		if strings.HasPrefix(s, "unix:") {
			continue
		}
		conn, err := dialer.DialContext(ctx, "udp", s) // which sends nothing
		if err != nil {
			continue
		}
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close()
		if err == nil {
			return net.JoinHostPort(host, "0")
		}
	}
	return "127.0.0.1:0"
}
