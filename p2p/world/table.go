package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
)

// Table is a rank table, the file by which HCCL's users say which rank is where: version 1.0, or 1.2 with super pods.
type Table struct {
	Version   string
	Completed bool        // false: the cluster is still being made, and there are no ranks yet
	Ranks     []TableRank // by rank
}

// TableRank is one device of a rank table. What is optional in the file may be "".
type TableRank struct {
	Server   string // unique name of the server, mostly its address
	HostIP   string // address of the server
	Local    int    // place among the server's ranks
	Device   string // physical number of the NPU
	DeviceIP string // address of the NPU's own network card
	HostPort int    // 0: not given
	SuperPod string
}

// tableFile is the file. Numbers are text in it.
type tableFile struct {
	Status      string        `json:"status"`
	Version     string        `json:"version"`
	ServerCount string        `json:"server_count"`
	Servers     []tableServer `json:"server_list"`
	SuperPods   []struct {
		ID      string        `json:"super_pod_id"`
		Servers []tableServer `json:"server_list"` // their names alone
	} `json:"super_pod_list"`
}

type tableServer struct {
	ID      string `json:"server_id"`
	HostIP  string `json:"host_ip"`
	Devices []struct {
		ID       string `json:"device_id"`
		IP       string `json:"device_ip"`
		Rank     string `json:"rank_id"`
		HostPort string `json:"host_port"`
	} `json:"device"`
}

// ParseTable reads a rank table. Its errors name the entry at fault, as in "server_list[1].device[0]".
func ParseTable(b []byte) (*Table, error) {
	var f tableFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("parse rank table: %w", err)
	}
	t := &Table{Version: f.Version}
	var err error
	switch {
	case f.Version == "":
		err = errors.New(`it has no version: want "1.0" or "1.2" (the template with group_list is not read)`)
	case f.Version != "1.0" && f.Version != "1.2":
		err = fmt.Errorf(`version %q: want "1.0" or "1.2"`, f.Version)
	case f.Status == "initializing":
		return t, nil
	case f.Status != "completed":
		err = fmt.Errorf("status %q: want completed or initializing", f.Status)
	default:
		t.Completed = true
		t.Ranks, err = f.ranks()
	}
	if err != nil {
		return nil, fmt.Errorf("parse rank table: %w", err)
	}
	return t, nil
}

// ranks checks the servers and puts their devices in the order of ranks.
func (f *tableFile) ranks() ([]TableRank, error) {
	if f.ServerCount != "" && f.ServerCount != strconv.Itoa(len(f.Servers)) {
		return nil, fmt.Errorf("server_count is %q, server_list has %d", f.ServerCount, len(f.Servers))
	}
	pods, err := f.pods()
	if err != nil {
		return nil, err
	}
	c := collected{ranks: make(map[int]TableRank), where: make(map[int]string)}
	servers := make(map[string]int)
	for i, s := range f.Servers {
		if first, ok := servers[s.ID]; ok || s.ID == "" {
			return nil, fmt.Errorf("server_list[%d]: server_id %q is empty, or that of server_list[%d] too", i, s.ID, first)
		}
		servers[s.ID] = i
		if err := c.add(fmt.Sprintf("server_list[%d]", i), s, pods[s.ID]); err != nil {
			return nil, err
		}
	}
	return c.inOrder()
}

// collected are the ranks of a table, and which entries they are.
type collected struct {
	ranks map[int]TableRank
	where map[int]string
}

// add takes the devices of one server.
func (c *collected) add(server string, s tableServer, pod string) error {
	last := -1
	for i, d := range s.Devices {
		at := fmt.Sprintf("%s.device[%d]", server, i)
		rank, err := strconv.Atoi(d.Rank)
		if err != nil || rank < 0 || rank >= MaxSize {
			return fmt.Errorf("%s: rank_id %q is not a number in 0..%d", at, d.Rank, MaxSize-1)
		}
		if first, ok := c.where[rank]; ok {
			return fmt.Errorf("%s: rank %d is %s already", at, rank, first)
		}
		if i > 0 && rank != last+1 {
			return fmt.Errorf("%s: rank %d follows rank %d: the ranks of a server are consecutive and in order", at, rank, last)
		}
		r := TableRank{Server: s.ID, HostIP: s.HostIP, Local: i, Device: d.ID, DeviceIP: d.IP, SuperPod: pod}
		if r.HostPort, err = port(d.HostPort); err != nil {
			return fmt.Errorf("%s: host_port %w", at, err)
		}
		c.ranks[rank], c.where[rank], last = r, at, rank
	}
	return nil
}

// inOrder makes a slice of the ranks, of which none may be missing.
func (c *collected) inOrder() ([]TableRank, error) {
	if len(c.ranks) == 0 {
		return nil, errors.New("server_list has no device")
	}
	most := 0
	for rank := range c.ranks {
		most = max(most, rank)
	}
	ranks := make([]TableRank, most+1)
	var missing []int
	for rank := range ranks {
		r, ok := c.ranks[rank]
		if !ok {
			missing = append(missing, rank)
		}
		ranks[rank] = r
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s missing: %d entries go up to rank %d, %s", noun(missing), len(c.ranks), most, c.where[most])
	}
	return ranks, nil
}

// pods are the super pods by server.
func (f *tableFile) pods() (map[string]string, error) {
	pods := make(map[string]string)
	for i, p := range f.SuperPods {
		for j, s := range p.Servers {
			at := fmt.Sprintf("super_pod_list[%d].server_list[%d]", i, j)
			if other, ok := pods[s.ID]; ok {
				return nil, fmt.Errorf("%s: server %q is in super pod %q already", at, s.ID, other)
			}
			pods[s.ID] = p.ID
			if !slices.ContainsFunc(f.Servers, func(known tableServer) bool { return known.ID == s.ID }) {
				return nil, fmt.Errorf("%s: server %q is not in the table's server_list", at, s.ID)
			}
		}
	}
	return pods, nil
}

// port is a port that may be absent.
func port(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%q is not a number in 1..65535", s)
	}
	return n, nil
}

// Config is that of a rank of the table; what is not about ranks stays for the caller to fill in. Each rank listens at its server's address (host_ip, or
// server_id if that is an address) and at its host_port, which is by default basePort plus its place among the server's ranks. The addresses of
// the NPUs are not used: they are not the host's.
func (t *Table) Config(rank, basePort int) (Config, error) {
	if rank < 0 || rank >= len(t.Ranks) {
		return Config{}, fmt.Errorf("rank %d is not in the rank table of %d", rank, len(t.Ranks))
	}
	master, err := t.address(0, basePort)
	own := master
	if rank > 0 && err == nil {
		own, err = t.address(rank, basePort)
	}
	if err != nil {
		return Config{}, fmt.Errorf("find addresses in rank table: %w", err)
	}
	r := t.Ranks[rank]
	return Config{Rank: rank, Size: len(t.Ranks), LocalRank: r.Local, Master: master, Listen: own, Host: r.Server}, nil
}

// address is where a rank listens.
func (t *Table) address(rank, basePort int) (string, error) {
	r := t.Ranks[rank]
	host := r.HostIP
	if host == "" && net.ParseIP(r.Server) != nil {
		host = r.Server
	}
	if host == "" {
		return "", fmt.Errorf("rank %d on server %q has no host_ip, and the server_id is not an address", rank, r.Server)
	}
	at := r.HostPort
	if at == 0 {
		at = basePort + r.Local
	}
	if at < 1 || at > 65535 {
		return "", fmt.Errorf("rank %d on server %q would have port %d: base port %d is not good", rank, r.Server, at, basePort)
	}
	return net.JoinHostPort(host, strconv.Itoa(at)), nil
}
