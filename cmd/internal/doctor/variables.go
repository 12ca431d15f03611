package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hcclps/p2p/hccl/acl"
	"hcclps/ps/optim"
)

// checkVariables looks at every HCCL_* of the environment: is it read by HCCL, and is its value one?
func checkVariables(_ context.Context, p *patient) []Finding {
	known := map[string]variable{}
	for _, v := range hcclVariables() {
		known[v.name] = v
	}
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(p.vars)) {
		if !strings.HasPrefix(name, "HCCL_") && !strings.HasPrefix(name, "HCOMM_") {
			continue
		}
		v, ok := known[name]
		if strings.HasPrefix(name, "HCCL_SIM_") {
			out = append(out, p.simulated(name))
		} else if !ok {
			out = append(out, unread(name, slices.Collect(maps.Keys(known))))
		} else if wrong := v.check(p.vars[name]); wrong != "" {
			out = append(out, found(p.ifHCCL(Fail), fmt.Sprintf("%s=%s: HCCL would refuse it or take it for something else (EI0001)", name, p.vars[name]), wrong))
		} else {
			out = append(out, good("%s=%s", name, p.vars[name]))
		}
	}
	out = append(out, p.together()...)
	if out == nil {
		return []Finding{good("none is set: the defaults of HCCL hold")}
	}
	return out
}

// simulated is what to say of a variable of the simulator.
func (p *patient) simulated(name string) Finding {
	if p.cann.simulator {
		return good("%s=%s, for the simulator", name, p.vars[name])
	}
	return found(Warn, name+" is read by the simulator alone, which is not loaded", "name it in "+acl.EnvLib)
}

// ifHCCL is l where HCCL will be used, else a warning: without HCCL nothing reads its settings.
func (p *patient) ifHCCL(l Level) Level {
	if p.cann.usable() {
		return l
	}
	return Warn
}

// unread is what to say of a name that HCCL does not read.
func unread(name string, known []string) Finding {
	what := name + " is not read by HCCL: it has no effect"
	if do, ok := mistaken()[name]; ok {
		return found(Warn, what, do)
	}
	if slices.Contains(torchVariables(), name) {
		return found(OK, name+" is read by torch_npu alone, not by HCCL: it has no effect here", "")
	}
	if strings.HasPrefix(name, "HCOMM_TA_") {
		return found(OK, name+" is for the links of a 950, which is not used", "")
	}
	slices.Sort(known)
	return found(Warn, what, "the nearest name that is read: "+optim.Nearest(name, known))
}

// together checks variables against each other.
func (p *patient) together() []Finding {
	var out []Finding
	pcie, roce := p.vars["HCCL_INTRA_PCIE_ENABLE"], p.vars["HCCL_INTRA_ROCE_ENABLE"]
	if pcie+roce != "" && (pcie == "1" && roce == "1" || pcie == "0" && roce == "" || pcie == "" && roce == "0") {
		out = append(out, found(p.ifHCCL(Fail), fmt.Sprintf("HCCL_INTRA_PCIE_ENABLE=%s and HCCL_INTRA_ROCE_ENABLE=%s exclude each other", pcie, roce), "set 1 and 0 for PCIe, 0 and 1 for RoCE, or unset both"))
	}
	_, base := p.vars["HCCL_IF_BASE_PORT"]
	if _, ports := p.vars["HCCL_HOST_SOCKET_PORT_RANGE"]; ports && base {
		out = append(out, found(Warn, "HCCL_HOST_SOCKET_PORT_RANGE wins over HCCL_IF_BASE_PORT", "unset HCCL_IF_BASE_PORT"))
	}
	if _, ifname := p.vars["HCCL_SOCKET_IFNAME"]; ifname && p.vars["HCCL_IF_IP"] != "" {
		out = append(out, found(Warn, "HCCL_IF_IP wins over HCCL_SOCKET_IFNAME", "unset one of them"))
	}
	if p.vars["RANK_TABLE_FILE"] != "" && p.vars["CM_CHIEF_IP"] != "" {
		out = append(out, found(Warn, "RANK_TABLE_FILE and CM_CHIEF_IP are two ways to say the same", "unset one of them"))
	}
	return out
}
