package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// checkWhitelist looks at HCCL's list of hosts that may connect, when it is on.
func checkWhitelist(_ context.Context, p *patient) []Finding {
	file := p.vars["HCCL_WHITELIST_FILE"]
	if p.vars["HCCL_WHITELIST_DISABLE"] != "0" {
		if file != "" {
			return []Finding{found(Warn, "HCCL_WHITELIST_FILE has no effect: the whitelist is off", "set HCCL_WHITELIST_DISABLE=0, or unset the file")}
		}
		return nil
	}
	const do = `write {"host_ip":["A.B.C.D", ...]} with the addresses of all hosts, or unset HCCL_WHITELIST_DISABLE`
	if file == "" {
		return []Finding{found(p.ifHCCL(Fail), "HCCL_WHITELIST_DISABLE=0 without HCCL_WHITELIST_FILE: every connection is refused (EI0015)", do)}
	}
	b, err := fs.ReadFile(p.Root, rooted(file))
	if err != nil {
		return []Finding{found(p.ifHCCL(Fail), fmt.Sprintf("HCCL_WHITELIST_FILE=%s cannot be read: %v", file, err), do)}
	}
	var list struct {
		Hosts []netip.Addr `json:"host_ip"`
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list.Hosts) == 0 {
		return []Finding{found(p.ifHCCL(Fail), fmt.Sprintf("HCCL_WHITELIST_FILE=%s has no list of addresses host_ip: every connection is refused (EI0015)", file), do)}
	}
	if missing := p.notListed(list.Hosts); len(missing) > 0 {
		return []Finding{found(p.ifHCCL(Warn), fmt.Sprintf("HCCL_WHITELIST_FILE=%s lacks %s", file, strings.Join(missing, ", ")), "add every host of the cluster to host_ip")}
	}
	return []Finding{good("the whitelist %s has %d hosts", file, len(list.Hosts))}
}

// notListed are the servers given by IP address that are not in the list.
func (p *patient) notListed(hosts []netip.Addr) []string {
	var out []string
	for _, s := range p.Servers {
		host, _, err := net.SplitHostPort(s)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(host); err == nil && !slices.Contains(hosts, a) {
			out = append(out, host)
		}
	}
	return out
}
