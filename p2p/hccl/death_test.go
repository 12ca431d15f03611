package hccl_test

import (
	"strings"
	"testing"
	"time"
)

// told waits until a process says something that begins with want.
func told(t *testing.T, lines <-chan string, want string) string {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the process ended before it said %q", want)
			}
			t.Log(line)
			if rest, ok := strings.CutPrefix(line, want); ok {
				return strings.TrimSpace(rest)
			}
			if strings.HasPrefix(line, "error") {
				t.Fatalf("want %q", want)
			}
		case <-late:
			t.Fatalf("the process did not say %q in %v", want, patience)
		}
	}
}

// A peer that is killed at any moment costs its own pair, and no other a push; then a fresh peer can come. The time-outs
// of HCCL are minutes, so nothing here waits for them.
func TestPeerDies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault string // of the peer
		says  string // what the survivor says of it
		why   string
		again string // what it says of the next peer
	}{
		{"HCCL_SIM_DIE=create", "refused", "peer lost", "refused"}, // there is no way out of a creation but to wait
		{"HCCL_SIM_DIE=first", "refused", "peer lost", "paired"},
		{"HCCL_SIM_DIE=later:3", "lost", "peer lost", "paired"},
		{"HCCL_SIM_ISSUE_MS=60000", "refused", "the first operator took too long", "paired"}, // it is stuck there, and lives
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			// The peer, which is the root, is to be dead before the survivor asks it.
			_, lines := start(t, role{Kind: "survivor", Device: 0}, "HCCL_SIM_CREATE_MS=200")
			addr := told(t, lines, "listens")
			start(t, role{Kind: "sink", Addr: addr, Device: 1})
			told(t, lines, "pushed")
			start(t, role{Kind: "source", Addr: addr, Device: 2}, test.fault)
			why := told(t, lines, test.says)
			if !strings.Contains(why, test.why) {
				t.Errorf("the survivor says %q", why)
			}
			told(t, lines, "pushed")
			start(t, role{Kind: "source", Addr: addr, Device: 2})
			if why := told(t, lines, test.again); test.again == "refused" && !strings.Contains(why, "busy") {
				t.Errorf("the survivor says %q of the next", why)
			}
		})
	}
}
