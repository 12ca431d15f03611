package ps

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sort"
	"strings"

	"hcclps/ps/raftlog"
)

// tmpfs is where logs live in memory.
const tmpfs = "/dev/shm"

// MemoryLogDir is where a server keeps the logs of its shards under
// QuorumMemory, unless told otherwise. Who takes a cluster down for good
// removes it.
func MemoryLogDir(cluster, server string) string {
	return filepath.Join(tmpfs, "hcclps-"+cluster+"-"+server)
}

// Shares of a server's memory.
const (
	copyShare  = 8 // an eighth, at most ...
	maxCopies  = 256 << 20
	inboxShare = 4 // a quarter
	minInbox   = 16 << 20
)

// shares is how a server's memory is meant to be used, in bytes.
type shares struct {
	limit, log, inbox, copies int64
	given                     bool // limit was; else it is what the machine has free
}

// memory plans the use of memory by the server that is self in f, and refuses a plan that cannot hold.
func (s *Server) memory(f formation, self string) (shares, error) {
	m, groups := shares{limit: s.cfg.Memory, given: s.cfg.Memory != 0}, shardsOf(f, self)
	if !m.given {
		free, _, err := raftlog.FreeMemory()
		if err != nil {
			return m, fmt.Errorf("%w: say how much this server may use (Memory, --memory)", err)
		}
		m.limit = free
	}
	if f.Durability == QuorumMemory && !f.Scratch {
		m.log = int64(groups) * s.cfg.LogBudget
	}
	if m = m.dealt(m.limit); m.tables() >= minTables {
		return m, nil
	}
	least := sort.Search(1<<30, func(mib int) bool { return m.dealt(int64(mib)<<20).tables() >= minTables })
	err := fmt.Errorf("the %d bytes this server may use are too few: it needs %dMiB at least (Memory, --memory)", m.limit, least)
	if m.log > 0 {
		err = fmt.Errorf("%w, or a lower log budget (LogBudget, --log-budget; now %d a group, %d groups here): the logs are in memory too", err, s.cfg.LogBudget, groups)
	}
	return m, err
}

// dealt is what a server with these logs makes of a limit.
func (m shares) dealt(limit int64) shares {
	m.limit = limit
	m.copies = min(maxCopies, m.limit/copyShare)
	m.inbox = max(minInbox, m.limit/inboxShare)
	return m
}

// minTables is what tables may use at least.
const minTables = 16 << 20

// tables is what is left for tables.
func (m shares) tables() int64 { return m.limit - m.log - m.inbox - m.copies }

// maxScratch is memory that links keep for what comes next, of the client's side and of the server's, each.
const maxScratch = 64 << 20

// scratch is the memory of links by what a server may use, 0: their default.
func scratch(memory int64) int {
	if memory == 0 {
		return 0
	}
	return int(max(1<<20, min(maxScratch, memory/16)))
}

// say tells how memory is meant to be used.
func (m shares) say(log *slog.Logger) {
	log.Info("memory: peak = tables + log + inbox + copies", "limit", m.limit, "given", m.given, "log", m.log, "inbox", m.inbox, "copies", m.copies, "left_for_tables", m.tables())
}

// under says whether a path is inside a folder.
func under(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
