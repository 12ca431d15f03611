package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"hcclps/ps"
	"hcclps/ps/layout"
)

// memoryFiles is where logs in memory live.
const memoryFiles = "/dev/shm"

// What `launch` keeps in memory when it is told nothing else.
const (
	launchServers   = 3
	launchShards    = 4
	launchLogBudget = 8 << 20
)

// checkLogSpace compares the place for logs with their budget: what is allocated at the start of logs on disk, all they may have of those in memory.
func checkLogSpace(_ context.Context, p *patient) []Finding {
	if p.Dir == "" {
		return []Finding{p.launchSpace()}
	}
	budget := cmp.Or(p.LogBudget, ps.FirstLogBudget)
	if p.Durability != ps.QuorumMemory {
		budget = min(budget, ps.FirstLogBudget)
	}
	logs, err := p.logsHere()
	if err != nil {
		return []Finding{found(Fail, err.Error(), "correct --servers, --replicas and --shards, the same on every server")}
	}
	need := int64(logs) * budget
	what := fmt.Sprintf("%d logs of %s here", logs, size(budget))
	switch {
	case p.LogDir != "":
		return []Finding{p.diskSpace(p.LogDir, what, need), p.diskSpace(p.Dir, "data", diskMargin)}
	case p.Durability == ps.QuorumMemory:
		return []Finding{p.memorySpace(what, need), p.diskSpace(p.Dir, "data", diskMargin)}
	default:
		return []Finding{p.diskSpace(p.Dir, what, need+diskMargin)}
	}
}

// launchSpace is for a machine that has no server of its own yet.
func (p *patient) launchSpace() Finding {
	const need = launchServers * launchShards * launchLogBudget
	return p.memorySpace(fmt.Sprintf("`ps-worker launch` keeps %s of logs there by default", size(need)), need)
}

// memorySpace looks at the file system in memory. A server without room there keeps its logs on disk.
func (p *patient) memorySpace(what string, need int64) Finding {
	s, err := p.Kernel.Space(memoryFiles)
	switch {
	case err != nil:
		return found(Warn, fmt.Sprintf("no file system in memory at %s (%v); %s, and they go to the disk instead, which is slower", memoryFiles, err, what), "mount -t tmpfs tmpfs "+memoryFiles)
	case !s.InMemory:
		return found(Warn, memoryFiles+" is not in memory: logs there are as slow as its disk", "mount -t tmpfs tmpfs "+memoryFiles)
	case s.Free < need:
		return found(Warn, fmt.Sprintf("%s has %s free; %s, and they go to the disk instead, which is slower", memoryFiles, size(s.Free), what), "mount -o remount,size=... "+memoryFiles+", docker --shm-size, or a lower --log-budget")
	default:
		return good("%s has %s free; %s", memoryFiles, size(s.Free), what)
	}
}

// diskSpace looks at the file system that dir is, or will be, in.
func (p *patient) diskSpace(dir, what string, need int64) Finding {
	s, err := p.Kernel.Space(dir)
	for at := dir; errors.Is(err, fs.ErrNotExist) && at != "/"; {
		at = path.Dir(at)
		s, err = p.Kernel.Space(at)
	}
	switch {
	case err != nil:
		return found(Warn, fmt.Sprintf("the file system of %s is not known: %v", dir, err), "see that this user may look into the folder")
	case s.Free < need:
		return found(Fail, fmt.Sprintf("the file system of %s has %s free; %s, which needs %s", dir, size(s.Free), what, size(need)), "free some, lower --log-budget, or use another folder")
	case s.InMemory && dir == p.Dir:
		return found(Warn, dir+" is in memory: its data does not survive this machine", "use a --dir on a disk")
	default:
		return good("the file system of %s has %s free; %s", dir, size(s.Free), what)
	}
}

// logsHere is how many shard groups this server will carry.
func (p *patient) logsHere() (int, error) {
	servers := p.Servers
	self := cmp.Or(p.Advertise, p.Listen)
	if len(servers) == 0 {
		servers = []string{self}
	}
	replicas := p.Replicas
	if replicas == 0 {
		if replicas = 3; len(servers) < 3 {
			replicas = 1
		}
	}
	var members []layout.Member
	here := "0"
	for i, s := range servers {
		id := strconv.Itoa(i)
		members = append(members, layout.Member{ID: id, Name: id, Addr: cmp.Or(s, id)})
		if s == self {
			here = id
		}
	}
	l, err := layout.New(layout.Config{Members: members, Replicas: replicas, Shards: p.Shards})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, replicas := range l.Shards {
		if slices.Contains(replicas, here) {
			n++
		}
	}
	return n, nil
}
