package ps

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
type shares struct{ limit, log, inbox, copies int64 }

// memory plans the use of memory, says it aloud, and refuses a plan that cannot hold.
func (s *Server) memory(f formation) (shares, error) {
	m := shares{limit: s.cfg.Memory}
	if m.limit == 0 {
		m.limit = available()
	}
	m.copies = min(maxCopies, m.limit/copyShare)
	m.inbox = max(minInbox, m.limit/inboxShare)
	if f.Durability == QuorumMemory && !f.Scratch {
		m.log = int64(s.shardsHere(f)) * s.cfg.LogBudget
	}
	fixed := m.log + m.inbox + m.copies
	s.log.Info("memory: peak = tables + log + inbox + copies", "limit", m.limit, "log", m.log, "inbox", m.inbox, "copies", m.copies, "left_for_tables", m.limit-fixed)
	if fixed > m.limit {
		return m, fmt.Errorf("log %d + inbox %d + copies %d bytes are more than the %d this server may use: raise --memory, or lower --log-budget (now %d a group, %d groups here)", m.log, m.inbox, m.copies, m.limit, s.cfg.LogBudget, s.shardsHere(f))
	}
	return m, nil
}

// available is the memory a process can count on: what the machine has free, or less if the process is limited.
func available() int64 {
	free := int64(math.MaxInt64)
	if v, err := meminfo("/proc/meminfo", "MemAvailable:"); err == nil {
		free = v
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if v, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			free = min(free, v)
		}
	}
	return free
}

// meminfo reads one line of a file like /proc/meminfo, in bytes.
func meminfo(file, key string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), key); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("%s has no line %s", file, key))
}

// under says whether a path is inside a folder.
func under(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
