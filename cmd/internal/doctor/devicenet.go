package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// deviceNetwork is what hccn_tool says of the network port of a device. A field it did not say is "" or invalid.
type deviceNetwork struct {
	link, health string
	addr         netip.Addr
	tls          string // "0" or "1"
}

var (
	hccnLink   = regexp.MustCompile(`(?m)^\s*link status:\s*(\S+)`)
	hccnHealth = regexp.MustCompile(`(?m)^\s*net health status:\s*(\S.*?)\s*$`)
	hccnAddr   = regexp.MustCompile(`(?m)^\s*ipaddr:\s*(\S+)`)
	hccnTLS    = regexp.MustCompile(`tls switch\[\s*([01])\s*\]`)
)

// parseHCCN puts the outputs of some hccn_tool queries about one device together.
func parseHCCN(out []byte) deviceNetwork {
	text := string(out)
	first := func(re *regexp.Regexp) string {
		if m := re.FindStringSubmatch(text); m != nil {
			return m[1]
		}
		return ""
	}
	d := deviceNetwork{link: first(hccnLink), health: first(hccnHealth), tls: first(hccnTLS)}
	if a, err := netip.ParseAddr(first(hccnAddr)); err == nil {
		d.addr = a
	}
	return d
}

// checkDeviceNetwork asks hccn_tool for link, health, address and TLS switch of every NPU's own port.
func checkDeviceNetwork(ctx context.Context, p *patient) []Finding {
	if len(p.npus) == 0 {
		return nil
	}
	var out []Finding
	tls := map[string][]string{}
	for _, n := range p.npus {
		d, err := p.askHCCN(ctx, n.id)
		if errors.Is(err, exec.ErrNotFound) {
			return []Finding{found(Warn, "no hccn_tool: links, addresses and TLS switches of the NPUs' own ports are not checked", "it is in /usr/local/Ascend/driver/tools; mount that into the container")}
		}
		if err != nil {
			out = append(out, found(Warn, fmt.Sprintf("port of NPU %d not checked: %v", n.id, err), "hccn_tool wants root"))
			continue
		}
		if d.tls != "" {
			tls[d.tls] = append(tls[d.tls], strconv.Itoa(n.id))
		}
		out = append(out, portOf(n.id, d))
	}
	if len(tls) > 1 {
		out = append(out, found(Warn, fmt.Sprintf("TLS is off for NPUs %s and on for %s: connections between them fail (EI0016)", strings.Join(tls["0"], ","), strings.Join(tls["1"], ",")), "make it the same on every NPU of every host: hccn_tool -i N -tls -s enable 0"))
	} else {
		for on := range tls {
			out = append(out, good("the TLS switch is %s for all NPUs here; it must be the same on every host (EI0016)", map[string]string{"0": "off", "1": "on"}[on]))
		}
	}
	return out
}

// portOf judges the port of one device. Only traffic between hosts uses it, so a port that is down is no failure.
func portOf(id int, d deviceNetwork) Finding {
	i := strconv.Itoa(id)
	switch {
	case d.link != "" && d.link != "UP":
		return found(Warn, "port of NPU "+i+": link "+d.link+": no hccl between hosts (EI0006, EI0009)", "look at cable, optical module and switch: hccn_tool -i "+i+" -optical -g")
	case !d.addr.IsValid():
		return found(Warn, "port of NPU "+i+" has no address: no hccl between hosts", "hccn_tool -i "+i+" -ip -s address A.B.C.D netmask 255.255.255.0")
	case d.health != "" && d.health != "Success" && d.health != "Init":
		return found(Warn, fmt.Sprintf("port of NPU %s (%v): network health %q: the address it watches does not answer", i, d.addr, d.health), "hccn_tool -i "+i+" -netdetect -g shows that address, -gateway -g the road; ping with hccn_tool -i "+i+" -ping -g address A.B.C.D")
	default:
		return good("port of NPU %s: link %s, address %v, health %s", i, orUnknown(d.link), d.addr, orUnknown(d.health))
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// askHCCN makes the four queries. A query that fails alone leaves its field empty.
func (p *patient) askHCCN(ctx context.Context, id int) (deviceNetwork, error) {
	var all []byte
	var last error
	failed := 0
	queries := [][]string{{"-link", "-g"}, {"-net_health", "-g"}, {"-ip", "-g"}, {"-tls", "-g"}}
	for _, q := range queries {
		out, err := p.command(ctx, []string{"hccn_tool", "/usr/local/Ascend/driver/tools/hccn_tool"}, append([]string{"-i", strconv.Itoa(id)}, q...)...)
		if errors.Is(err, exec.ErrNotFound) {
			return deviceNetwork{}, err
		}
		if err != nil {
			failed, last = failed+1, err
			continue
		}
		all = append(append(all, out...), '\n')
	}
	if failed == len(queries) {
		return deviceNetwork{}, last
	}
	return parseHCCN(all), nil
}
